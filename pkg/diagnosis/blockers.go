package diagnosis

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// precedence orders causes that stand against equally many nodes: first what time heals, then what an administrator
// can undo, then what only another request can.
var precedence = []Cause{
	Fragmented, Busy, CPUShort, MemoryShort, ResourceShort, PodLimit,
	Cordoned, NotReady, Tainted, UnhealthyGPUs, NodeSelector, GPUMemory, TooManyGPUs, NoGPUs,
}

// group is one blocker and the nodes that it stands against.
type group struct {
	blocker
	nodes []string
	// alone is the number of nodes against which nothing else stands, of those nearest to taking the pod.
	alone int
}

// blockers sums up what stands against the nodes of the pod's pool and type. First comes what stands against the
// nodes that are nearest to taking the pod: mending that is enough.
func (s *search) blockers(verdict string) []Finding {
	fewest := len(slices.MinFunc(s.judged, func(a, b judged) int { return cmp.Compare(len(a.blockers), len(b.blockers)) }).blockers)
	groups := map[blocker]*group{}
	for i := range s.judged {
		j := &s.judged[i]
		for _, b := range j.blockers {
			if groups[b] == nil {
				groups[b] = &group{blocker: b}
			}
			groups[b].nodes = append(groups[b].nodes, j.node.Name)
			if len(j.blockers) == fewest {
				groups[b].alone++
			}
		}
	}
	out := s.beyondNodes(verdict, fewest)
	for _, g := range ordered(groups) {
		out = append(out, s.finding(g))
	}
	return out
}

// beyondNodes is what the scheduler says and the nodes do not show. When a node would take the pod by all that they
// show, it is the cause; with nothing of that kind left, the scheduler has not tried since there is room.
func (s *search) beyondNodes(verdict string, fewest int) []Finding {
	out := findings(verdict, nodeRules)
	if len(out) > 0 || fewest > 0 {
		return out
	}
	if known := findings(verdict, plainRules); len(known) == 0 && verdict != "" {
		return one(rejected(verdict))
	}
	i := slices.IndexFunc(s.judged, func(j judged) bool { return len(j.blockers) == 0 })
	return one(Finding{
		Cause: RoomNow, Text: fmt.Sprintf("node %s has room by now, which it had not when the scheduler tried", s.judged[i].node.Name),
		Advice: []string{"wait some seconds: the scheduler tries again by itself"},
	})
}

func ordered(groups map[blocker]*group) []*group {
	var out []*group
	for _, g := range groups {
		slices.Sort(g.nodes)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(min(b.alone, 1), min(a.alone, 1)),
			cmp.Compare(slices.Index(precedence, a.cause), slices.Index(precedence, b.cause)),
			cmp.Compare(len(b.nodes), len(a.nodes)),
			cmp.Compare(a.what, b.what))
	})
	return out
}

// finding puts a group in words.
func (s *search) finding(g *group) Finding {
	out := Finding{Cause: g.cause, Nodes: len(g.nodes), Examples: g.nodes[:min(len(g.nodes), mostListed)]}
	switch g.cause {
	case Busy:
		s.busy(&out)
	case TooManyGPUs, NoGPUs, GPUMemory, UnhealthyGPUs:
		s.unsuited(&out)
	case CPUShort, MemoryShort, ResourceShort, PodLimit:
		s.resources(&out, g.what)
	default:
		closed(&out, g.what)
	}
	return out
}

// closed is about nodes that take no pod like this one, whatever is free on them.
func closed(out *Finding, what string) {
	count := nodeWord(out.Nodes)
	switch out.Cause {
	case Cordoned:
		out.Text = count + " cordoned: the administrators keep new pods away"
		out.Advice = []string{"ask them when the nodes come back, or use another pool"}
	case NotReady:
		out.Text = count + " not ready: the node is down or cut off"
		out.Advice = []string{"tell the administrators: kubectl describe node " + out.Examples[0]}
	case Tainted:
		out.Text = fmt.Sprintf("%s with the taint %s, which the job does not tolerate", count, what)
		out.Advice = []string{"if the job may run there, tolerate it in resources.tolerations; else use another pool"}
	case NodeSelector:
		out.Text = count + " without the labels that the job's node selector or node affinity asks for"
		out.Advice = []string{"correct the selector: gpuctl describe node " + out.Examples[0] + " and kubectl get node --show-labels show what there is"}
	}
}

// resources is about what Kubernetes counts beside GPUs.
func (s *search) resources(out *Finding, name string) {
	switch out.Cause {
	case CPUShort:
		s.resource(out, "CPU", "resources.cpu", corev1.ResourceCPU)
	case MemoryShort:
		s.resource(out, "memory", "resources.memory", corev1.ResourceMemory)
	case ResourceShort:
		s.resource(out, name, name, corev1.ResourceName(name))
	case PodLimit:
		out.Text = nodeWord(out.Nodes) + " with as many pods as a node takes"
		out.Advice = []string{"wait until other pods end, or use another pool"}
	}
}

// resource tells what no node has from what is in use.
func (s *search) resource(out *Finding, word, field string, name corev1.ResourceName) {
	var free, total resource.Quantity
	for i := range s.judged {
		if left := s.judged[i].free[name]; s.judged[i].has(out.Cause) && left.Cmp(free) > 0 {
			free = left
		}
		if all := s.judged[i].node.Status.Allocatable[name]; all.Cmp(total) > 0 {
			total = all
		}
	}
	asked := s.request.Resources[name]
	out.Text = fmt.Sprintf("%s with too little %s free: a pod asks for %s, at most %s is free on one", nodeWord(out.Nodes), word, &asked, &free)
	switch {
	case asked.Cmp(total) > 0:
		out.Advice = []string{fmt.Sprintf("ask for at most %s in %s: no node has more", &total, field)}
	case free.Sign() > 0:
		out.Advice = []string{fmt.Sprintf("ask for at most %s in %s, or wait until other pods end", &free, field)}
	default:
		out.Advice = []string{"wait until other pods end"}
	}
}

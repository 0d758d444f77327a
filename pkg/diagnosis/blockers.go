package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// precedence orders causes that stand against equally many nodes: first what time heals, then what an administrator
// can undo, then what only another request can.
var precedence = []reason.Cause{
	reason.Fragmented, reason.Busy, reason.CPUShort, reason.MemoryShort, reason.ResourceShort, reason.PodLimit,
	reason.Cordoned, reason.NotReady, reason.Tainted, reason.BadInventory, reason.UnhealthyGPUs, reason.NodeSelector, reason.GPUMemory, reason.NotShared, reason.TooManyGPUs, reason.NoGPUs,
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
	out := findings(verdict, s.facts.Job.Namespace, reason.OfNodes)
	if len(out) > 0 || fewest > 0 {
		return out
	}
	if !known(verdict) {
		return one(rejected(verdict))
	}
	i := slices.IndexFunc(s.judged, func(j judged) bool { return len(j.blockers) == 0 })
	return one(Finding{
		Cause: reason.RoomNow, Text: fmt.Sprintf("node %s has room by now, which it had not when the scheduler tried", s.judged[i].node.Name),
		Steps: []Step{waiting("wait some seconds: the scheduler tries again by itself")},
	})
}

// known reports whether a verdict holds nothing but what the cluster shows too.
func known(verdict string) bool {
	if verdict == "" || contains(verdict, reason.OfPlainNodes, reason.OfClaims, reason.OfGangs, reason.OfPods) {
		return true
	}
	_, _, missing := reason.MissingMembers(verdict)
	return missing
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
	case reason.Busy:
		s.busy(&out)
	case reason.TooManyGPUs, reason.NoGPUs, reason.GPUMemory, reason.UnhealthyGPUs, reason.BadInventory, reason.NotShared:
		s.unsuited(&out)
	case reason.CPUShort, reason.MemoryShort, reason.ResourceShort, reason.PodLimit:
		s.resources(&out, g.what)
	default:
		s.closed(&out, g.what)
	}
	return out
}

// closed is about nodes that take no pod like this one, whatever is free on them.
func (s *search) closed(out *Finding, what string) {
	count, first := nodeWord(out.Nodes), out.Examples[0]
	switch out.Cause {
	case reason.Cordoned:
		out.Text = count + " cordoned: the administrators keep new pods away"
		out.Steps = append(out.Steps, Step{Action: reason.Uncordon, Kind: "Node", Name: first, Command: "kubectl uncordon " + first,
			Text: "ask them when the nodes come back: kubectl uncordon " + first + " opens the first"})
	case reason.NotReady:
		out.Text = count + " not ready: the node is down or cut off"
		out.Steps = append(out.Steps, Step{Action: reason.MendNode, Kind: "Node", Name: first, Command: "kubectl describe node " + first,
			Text: "tell the administrators: kubectl describe node " + first})
	case reason.Tainted:
		out.Text = fmt.Sprintf("%s with the taint %s, which the job does not tolerate", count, what)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldTolerations, Value: what,
			Text: fmt.Sprintf("if the job may run there, tolerate %s in resources.tolerations", what)})
	case reason.NodeSelector:
		out.Text = count + " without the labels that the job's node selector or node affinity asks for" + s.unmet()
		out.Steps = []Step{{Action: reason.Resubmit, Field: "spec.nodeSelector", Command: command("delete", &s.facts.Job),
			Text: "delete the job, correct the selector, and submit it again: kubectl get node --show-labels shows what there is"}}
		return
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
}

// unmet names the labels that the job selects and no node of its pool and type has.
func (s *search) unmet() string {
	var out []string
	selector := s.request.Pod.Spec.NodeSelector
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if !slices.ContainsFunc(s.judged, func(j judged) bool { return j.node.Labels[key] == selector[key] }) {
			out = append(out, key+"="+selector[key])
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": none has " + listOf(out)
}

// resources is about what Kubernetes counts beside GPUs.
func (s *search) resources(out *Finding, name string) {
	switch out.Cause {
	case reason.CPUShort:
		s.resource(out, "CPU", reason.FieldCPU, corev1.ResourceCPU)
	case reason.MemoryShort:
		s.resource(out, "memory", reason.FieldMemory, corev1.ResourceMemory)
	case reason.ResourceShort:
		s.resource(out, name, "", corev1.ResourceName(name))
	case reason.PodLimit:
		out.Text = nodeWord(out.Nodes) + " with as many pods as a node takes"
		out.Steps = append([]Step{s.waitForResource(reason.PodLimit)}, s.elsewherePools(true)...)
	}
}

// resource tells what no node has from what is in use. What it advises to ask for is what a node has on which nothing
// else is short.
func (s *search) resource(out *Finding, word, field string, name corev1.ResourceName) {
	var free, total, enough, largest resource.Quantity
	for i := range s.judged {
		j := &s.judged[i]
		all := j.node.Status.Allocatable[name]
		if all.Cmp(total) > 0 {
			total = all
		}
		if left := j.free[name]; j.has(out.Cause) && left.Cmp(free) > 0 {
			free = left
		}
		if len(j.blockers) != 1 || !j.has(out.Cause) {
			continue
		}
		if left := j.free[name]; left.Cmp(enough) > 0 {
			enough = left
		}
		if all.Cmp(largest) > 0 {
			largest = all
		}
	}
	asked := s.request.Resources[name]
	out.Text = fmt.Sprintf("%s with too little %s free: a pod asks for %s, at most %s is free on one", nodeWord(out.Nodes), word, &asked, &free)
	if asked.Cmp(total) <= 0 {
		out.Steps = append(out.Steps, s.waitForResource(out.Cause))
	} else {
		out.Text += fmt.Sprintf(", and no node has more than %s", &total)
	}
	if enough.Sign() > 0 && field != "" {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: field, Value: enough.String(), Text: fmt.Sprintf("ask for at most %s in %s", &enough, field)})
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
	if len(out.Steps) == 0 {
		out.Steps = []Step{{Action: reason.AddNodes, Text: fmt.Sprintf("ask the administrators for nodes with more %s, or ask for less", word)}}
	}
}

// waitForResource names who holds a node on which nothing else is short.
func (s *search) waitForResource(cause reason.Cause) Step {
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) != 1 || !j.has(cause) {
			continue
		}
		holders := s.holdersOfAny(j.holders)
		if len(holders) > 0 {
			return Step{Action: reason.Wait, Holders: holders, Text: fmt.Sprintf("wait until other pods end; node %s has those of %s", j.node.Name, namesOf(holders))}
		}
	}
	return waiting("wait until other pods end")
}

// holdersOfAny are the jobs and pods on a node, whether they hold GPUs or not.
func (s *search) holdersOfAny(pods []*corev1.Pod) []Holder {
	var out []Holder
	for _, pod := range pods {
		holder := holderOf(pod)
		if !slices.Contains(out, holder) {
			out = append(out, holder)
		}
	}
	return out
}

func namesOf(holders []Holder) string {
	texts := make([]string, 0, len(holders))
	for _, holder := range holders {
		texts = append(texts, holder.name())
	}
	return listOf(shortened(texts))
}

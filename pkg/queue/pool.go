package queue

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// pool is the nodes of a pool without their pods: what they could hold if empty. What is computed for a pod holds for all equal ones.
type pool struct {
	name  string
	nodes []corev1.Node
	// mended are the nodes as if all of them were schedulable with healthy GPUs, since closed nodes reopen.
	mended, bare []*fit.Node
	topologies   *gpu.Topologies
	able         map[string]bool
	shapes       map[string]*shape
}

// shape is what pods that are alike find.
type shape struct {
	// open are the names of the nodes that take them when empty, and places their numbers.
	open   []string
	places []int
	// closed are the nodes that would otherwise, by what closes them.
	closed map[reason.Cause]int
}

func newPool(nodes []corev1.Node, name string, topologies *gpu.Topologies) *pool {
	own := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool { return gpu.PoolOf(&node) != name })
	return &pool{
		name: name, nodes: own, mended: make([]*fit.Node, len(own)), bare: make([]*fit.Node, len(own)), topologies: topologies,
		able: map[string]bool{}, shapes: map[string]*shape{},
	}
}

// mendedNode is created on first use.
func (p *pool) mendedNode(i int) *fit.Node {
	if p.mended[i] == nil {
		object := fit.OpenedNode(&p.nodes[i])
		markGPUsHealthy(object)
		p.mended[i] = fit.NewNode(object, nil, p.topologies)
	}
	return p.mended[i]
}

// markGPUsHealthy makes all GPUs of a node healthy.
func markGPUsHealthy(node *corev1.Node) {
	inventory, err := gpu.InventoryOf(node)
	if err != nil || inventory.Derived {
		return
	}
	inventory.GPUs, inventory.Sliced = slices.Clone(inventory.GPUs), slices.Clone(inventory.Sliced)
	for i := range inventory.GPUs {
		inventory.GPUs[i].Health = gpu.Healthy
	}
	for i := range inventory.Sliced {
		inventory.Sliced[i].Health = gpu.Healthy
	}
	if text, err := inventory.Encode(); err == nil {
		node.Annotations[names.AnnotationInventory] = text
	}
}

// couldHold reports whether the nodes, if they were empty and schedulable, could hold one pod of a job, or all of them if they are a gang. Whether a
// node is schedulable changes over time.
func (p *pool) couldHold(demand *entryDemand) bool {
	requests := demand.requests
	if demand.startsTogether() {
		return p.holdsAll(requests)
	}
	key := requests[0].EquivalenceKey()
	able, known := p.able[key]
	if !known {
		able = p.holdsAll(requests[:1])
		p.able[key] = able
	}
	return able
}

func (p *pool) holdsAll(requests []*fit.Request) bool {
	var undo []func()
	defer func() {
		for _, back := range undo {
			back()
		}
	}()
	at := 0 // pods of a job ask alike: a node that one finds full is full for the next
	for _, request := range requests {
		for at < len(p.nodes) && (!request.InScope(&p.nodes[at]) || !p.mendedNode(at).PlacePod(request)) {
			at++
		}
		if at == len(p.nodes) {
			return false
		}
		node := p.mendedNode(at)
		undo = append(undo, func() { node.RemovePod(request.Pod) })
	}
	return true
}

// shapeOf checks every node for pods like this one, once.
func (p *pool) shapeOf(request *fit.Request) *shape {
	key := request.EquivalenceKey()
	if p.shapes[key] == nil {
		out := &shape{closed: map[reason.Cause]int{}}
		for i := range p.nodes {
			if !request.InScope(&p.nodes[i]) {
				continue
			}
			switch cause, takes := p.checkEmptyNode(request, i); {
			case takes:
				out.open, out.places = append(out.open, p.nodes[i].Name), append(out.places, i)
			case cause != "":
				out.closed[cause]++
			}
		}
		p.shapes[key] = out
	}
	return p.shapes[key]
}

// checkEmptyNode reports whether an empty node takes a pod, and if not, which repairable cause prevents it.
func (p *pool) checkEmptyNode(request *fit.Request, i int) (cause reason.Cause, takes bool) {
	if p.bare[i] == nil {
		p.bare[i] = fit.NewNode(&p.nodes[i], nil, p.topologies)
	}
	obstacles, cards := request.Obstacles(p.bare[i])
	for _, obstacle := range obstacles {
		switch {
		case obstacle.Kind == fit.Cards && cards.Code == gpu.TooFewHealthy:
			cause = reason.UnhealthyGPUs
		case obstacle.Kind == fit.Cordoned, obstacle.Kind == fit.NotReady, obstacle.Kind == fit.Tainted, obstacle.Kind == fit.KeptOff, obstacle.Kind == fit.AgentAway:
			cause = reason.Cause(obstacle.Kind)
		default:
			return "", false // it is of the wrong kind, or too small
		}
	}
	return cause, len(obstacles) == 0
}

// openNodes are the names of the nodes that take pods like this one, if they have room.
func (p *pool) openNodes(request *fit.Request) []string { return p.shapeOf(request).open }

// closedFinding explains why no node, even if empty, currently takes pods like this one, if nodes would take it otherwise.
func (p *pool) closedFinding(request *fit.Request) (diagnosis.Finding, bool) {
	found := p.shapeOf(request)
	if len(found.open) > 0 || len(found.closed) == 0 {
		return diagnosis.Finding{}, false
	}
	causes := make([]reason.Cause, 0, len(found.closed))
	for cause := range found.closed {
		causes = append(causes, cause)
	}
	slices.SortFunc(causes, func(a, b reason.Cause) int {
		return cmp.Or(cmp.Compare(found.closed[b], found.closed[a]), cmp.Compare(a, b))
	})
	parts := make([]phrase.Text, len(causes))
	for i, cause := range causes {
		parts[i] = phrase.Textf("%d %s", found.closed[cause], closedWords[cause])
	}
	says := phrase.Textf("no node of pool %s takes it now, however empty: %s", p.name, phrase.Join(parts, phrase.Textf(", ")))
	return diagnosis.Finding{Cause: causes[0], Message: says}.WithText(), true
}

// closedWords say what keeps pods from nodes.
var closedWords = map[reason.Cause]phrase.Text{
	reason.Cordoned: phrase.Textf("cordoned"), reason.NotReady: phrase.Textf("not ready"), reason.Tainted: phrase.Textf("with a taint"),
	reason.KeptOff: phrase.Textf("kept off by gpu-controller"), reason.UnhealthyGPUs: phrase.Textf("with too few healthy GPUs"),
	reason.AgentAway: phrase.Textf("whose gpu-agent gives out no GPUs"),
}

package defrag

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// cluster is the state after the proposals so far. [moves.Find] searches on it.
type cluster struct {
	facts *Facts
	nodes []*fit.Node // sorted by name
	// movable are the pods of each node that can be moved and have not been, the largest first.
	movable [][]*fit.Request
	// young are the pods of each node that cannot be moved only because they have not run long enough.
	young [][]*fit.Request
	known map[*corev1.Pod]*pod
	kinds map[string]int
	marks *rand.Rand
	// state is a hash of each node, equal only for equal content: the sum of the marks of all changes.
	state    []uint64
	verdicts [][]verdict // by class and node
}

var _ moves.Cluster[*fit.Request] = &candidates{}

// pod is cached data of a pod.
type pod struct {
	kind  int
	milli int64
	mark  uint64 // of its absence
}

// verdict is a cached answer.
type verdict struct {
	state       uint64
	known, fits bool
}

func newCluster(facts *Facts, limits Limits) *cluster {
	c := &cluster{facts: facts, known: map[*corev1.Pod]*pod{}, kinds: map[string]int{}, marks: rand.New(rand.NewPCG(1, 1))} //nolint:gosec // no secrets
	on := fit.ByNode(facts.Running)
	var topologies gpu.Topologies
	for i := range facts.Nodes {
		c.nodes = append(c.nodes, fit.NewNode(&facts.Nodes[i], on[facts.Nodes[i].Name], &topologies))
	}
	slices.SortFunc(c.nodes, func(a, b *fit.Node) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	c.state = make([]uint64, len(c.nodes))
	c.movable, c.young = make([][]*fit.Request, len(c.nodes)), make([][]*fit.Request, len(c.nodes))
	for at, node := range c.nodes {
		for _, pod := range on[node.Object.Name] {
			request, err := facts.requestOf(pod)
			switch {
			case err != nil:
			case facts.movable(pod, limits):
				c.movable[at] = append(c.movable[at], request)
				c.meet(request, cardMemory(node.Object))
			case facts.movable(pod, Limits{}):
				c.young[at] = append(c.young[at], request)
			}
		}
		slices.SortFunc(c.movable[at], c.byDemand)
	}
	return c
}

// cardMemory returns the shareable memory of a node's first GPU in MiB, 0 if unknown.
func cardMemory(node *corev1.Node) int64 {
	inventory, _ := gpu.InventoryOf(node) // use what is known
	if len(inventory.Cards) == 0 {
		return 0
	}
	return inventory.Cards[0].ShareableMiB()
}

// meet registers a pod.
func (c *cluster) meet(r *fit.Request, cardMiB int64) {
	key := fmt.Sprint(r.Alikeness(), r.Closed.Fingerprint())
	if _, known := c.kinds[key]; !known {
		c.kinds[key] = len(c.kinds)
		c.verdicts = append(c.verdicts, make([]verdict, len(c.nodes)))
	}
	c.known[r.Pod] = &pod{kind: c.kinds[key], milli: r.Demand.Milli(cardMiB), mark: c.marks.Uint64()}
}

// byDemand sorts pods that hold the most GPUs first.
func (c *cluster) byDemand(a, b *fit.Request) int {
	return cmp.Or(cmp.Compare(c.known[b.Pod].milli, c.known[a.Pod].milli), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
		cmp.Compare(a.Pod.Name, b.Pod.Name))
}

// fits reports whether a pod fits on a node of its pool and type.
func (c *cluster) fits(r *fit.Request, node int) bool {
	known := &c.verdicts[c.known[r.Pod].kind][node]
	if !known.known || known.state != c.state[node] {
		*known = verdict{state: c.state[node], known: true}
		if r.InScope(c.nodes[node].Object) {
			obstacles, _ := r.Obstacles(c.nodes[node])
			known.fits = len(obstacles) == 0
		}
	}
	return known.fits
}

// rooms returns the nodes, except one, on which a pod fits, those with the fewest free GPUs first.
func (c *cluster) rooms(r *fit.Request, but int) []int {
	var rooms []int
	for node := range c.nodes {
		if node != but && c.fits(r, node) {
			rooms = append(rooms, node)
		}
	}
	slices.SortStableFunc(rooms, func(a, b int) int { return cmp.Compare(c.nodes[a].FreeCards(), c.nodes[b].FreeCards()) })
	return rooms
}

// put places a pod on a node on which it fits.
func (c *cluster) put(r *fit.Request, node int) (undo func()) {
	if !c.nodes[node].Place(r) {
		return func() {}
	}
	mark := c.marks.Uint64()
	c.state[node] += mark
	return func() {
		c.nodes[node].Remove(r.Pod)
		c.state[node] -= mark
	}
}

// take removes a pod from its node.
func (c *cluster) take(r *fit.Request, node int) (undo func()) {
	back, mark := c.nodes[node].Remove(r.Pod), c.known[r.Pod].mark
	c.state[node] += mark
	return func() {
		back()
		c.state[node] -= mark
	}
}

// candidates is a cluster with the changes that a waiting pod may cause.
type candidates struct {
	*cluster
	waiting *fit.Request
}

// Nodes implements [moves.Cluster], as do the methods below.
func (c *candidates) Nodes() int { return len(c.nodes) }

// Movable omits pods of a higher priority than the waiting one.
func (c *candidates) Movable(node int) []*fit.Request {
	return below(c.waiting, c.movable[node])
}

// Fits reports whether a pod fits on a node.
func (c *candidates) Fits(r *fit.Request, node int) bool { return c.fits(r, node) }

// Rooms returns the nodes on which a pod fits.
func (c *candidates) Rooms(r *fit.Request, but int) []int { return c.rooms(r, but) }

// Put places a pod on a node.
func (c *candidates) Put(r *fit.Request, node int) (undo func()) { return c.put(r, node) }

// Take removes a pod from its node.
func (c *candidates) Take(r *fit.Request, node int) (undo func()) { return c.take(r, node) }

// Free returns the free part of a node's GPUs. For shared GPUs it is unknown: what a pod from another node would take depends on the GPU memory.
func (c *candidates) Free(node int) int64 {
	if c.nodes[node].Object.Labels[names.LabelSharing] != "" {
		return math.MaxInt32
	}
	return c.nodes[node].FreeGPUs() * gpu.MilliPerCard
}

// Milli returns what a pod holds of GPUs.
func (c *candidates) Milli(r *fit.Request) int64 { return c.known[r.Pod].milli }

// Kind is equal for pods that fit on the same nodes.
func (c *candidates) Kind(r *fit.Request) int { return c.known[r.Pod].kind }

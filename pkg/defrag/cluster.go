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
	young      [][]*fit.Request
	known      map[*corev1.Pod]*pod
	podClasses map[string]int
	marks      *rand.Rand
	// state is a hash of each node, equal only for equal content: the sum of the marks of all changes.
	state      []uint64
	fitResults [][]fitResult // by class and node
}

var _ moves.Cluster[*fit.Request] = &candidates{}

// pod is cached data of a pod.
type pod struct {
	class int
	milli int64
	mark  uint64 // of its absence
}

// fitResult is a cached answer.
type fitResult struct {
	state       uint64
	known, fits bool
}

func newCluster(facts *Facts, limits Limits) *cluster {
	c := &cluster{facts: facts, known: map[*corev1.Pod]*pod{}, podClasses: map[string]int{}, marks: rand.New(rand.NewPCG(1, 1))} //nolint:gosec // no secrets
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
			case facts.isMovable(pod, limits):
				c.movable[at] = append(c.movable[at], request)
				c.registerRequest(request, gpuMemory(node.Object))
			case facts.isMovable(pod, Limits{}):
				c.young[at] = append(c.young[at], request)
			}
		}
		slices.SortFunc(c.movable[at], c.byDemand)
	}
	return c
}

// gpuMemory returns the shareable memory of a node's first GPU in MiB, 0 if unknown.
func gpuMemory(node *corev1.Node) int64 {
	inventory, _ := gpu.InventoryOf(node) // use what is known
	if len(inventory.GPUs) == 0 {
		return 0
	}
	return inventory.GPUs[0].ShareableMiB()
}

// registerRequest registers a pod.
func (c *cluster) registerRequest(r *fit.Request, cardMiB int64) {
	key := fmt.Sprint(r.EquivalenceKey(), r.Closed.Fingerprint())
	if _, known := c.podClasses[key]; !known {
		c.podClasses[key] = len(c.podClasses)
		c.fitResults = append(c.fitResults, make([]fitResult, len(c.nodes)))
	}
	c.known[r.Pod] = &pod{class: c.podClasses[key], milli: r.Demand.MilliGPUs(cardMiB), mark: c.marks.Uint64()}
}

// byDemand sorts pods that hold the most GPUs first.
func (c *cluster) byDemand(a, b *fit.Request) int {
	return cmp.Or(cmp.Compare(c.known[b.Pod].milli, c.known[a.Pod].milli), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
		cmp.Compare(a.Pod.Name, b.Pod.Name))
}

// fitsNode reports whether a pod fits on a node of its pool and type.
func (c *cluster) fitsNode(r *fit.Request, node int) bool {
	known := &c.fitResults[c.known[r.Pod].class][node]
	if !known.known || known.state != c.state[node] {
		*known = fitResult{state: c.state[node], known: true}
		if r.InScope(c.nodes[node].Object) {
			obstacles, _ := r.Obstacles(c.nodes[node])
			known.fits = len(obstacles) == 0
		}
	}
	return known.fits
}

// nodesWithRoom returns the nodes, except one, on which a pod fits, those with the fewest free GPUs first.
func (c *cluster) nodesWithRoom(r *fit.Request, but int) []int {
	var rooms []int
	for node := range c.nodes {
		if node != but && c.fitsNode(r, node) {
			rooms = append(rooms, node)
		}
	}
	slices.SortStableFunc(rooms, func(a, b int) int { return cmp.Compare(c.nodes[a].IdleGPUs(), c.nodes[b].IdleGPUs()) })
	return rooms
}

// placePod places a pod on a node on which it fits.
func (c *cluster) placePod(r *fit.Request, node int) (undo func()) {
	if !c.nodes[node].PlacePod(r) {
		return func() {}
	}
	mark := c.marks.Uint64()
	c.state[node] += mark
	return func() {
		c.nodes[node].RemovePod(r.Pod)
		c.state[node] -= mark
	}
}

// removePod removes a pod from its node.
func (c *cluster) removePod(r *fit.Request, node int) (undo func()) {
	back, mark := c.nodes[node].RemovePod(r.Pod), c.known[r.Pod].mark
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

// CountNodes implements [moves.Cluster], as do the methods below.
func (c *candidates) CountNodes() int { return len(c.nodes) }

// MovablePods omits pods of a higher priority than the waiting one.
func (c *candidates) MovablePods(node int) []*fit.Request {
	return withoutOutranking(c.waiting, c.movable[node])
}

// FitsOn reports whether a pod fits on a node.
func (c *candidates) FitsOn(r *fit.Request, node int) bool { return c.fitsNode(r, node) }

// NodesWithRoom returns the nodes on which a pod fits.
func (c *candidates) NodesWithRoom(r *fit.Request, but int) []int { return c.nodesWithRoom(r, but) }

// PlacePod places a pod on a node.
func (c *candidates) PlacePod(r *fit.Request, node int) (undo func()) { return c.placePod(r, node) }

// RemovePod removes a pod from its node.
func (c *candidates) RemovePod(r *fit.Request, node int) (undo func()) { return c.removePod(r, node) }

// FreeMilli returns the free part of a node's GPUs. For shared GPUs it is unknown: what a pod from another node would take depends on the GPU memory.
func (c *candidates) FreeMilli(node int) int64 {
	if c.nodes[node].Object.Labels[names.LabelSharing] != "" {
		return math.MaxInt32
	}
	return c.nodes[node].FreeGPUs() * gpu.MilliPerGPU
}

// PodMilli returns what a pod holds of GPUs.
func (c *candidates) PodMilli(r *fit.Request) int64 { return c.known[r.Pod].milli }

// PodClass is equal for pods that fit on the same nodes.
func (c *candidates) PodClass(r *fit.Request) int { return c.known[r.Pod].class }

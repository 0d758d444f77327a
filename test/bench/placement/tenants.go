package placement

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// tenant is a pod, and where it is.
type tenant struct {
	pod   *trace.Pod
	kind  int
	at    int // nowhere, while it has no node
	cards Cards
}

func (t *tenant) placed() bool { return t.at >= 0 }

// tenants is a cluster that knows who is where. It is what moves are planned on.
type tenants struct {
	*Cluster
	on    [][]*tenant // by node
	kinds map[class]int
	// versions is the last one that a node was given. None is given twice, so that a node whose change was undone can have
	// the one from before, with what is remembered of that.
	versions int
}

var _ moves.Cluster[*tenant] = &tenants{}

func newTenants(nodes []trace.Node, policy Policy) *tenants {
	return &tenants{Cluster: NewCluster(nodes, policy), on: make([][]*tenant, len(nodes)), kinds: map[class]int{}}
}

// arrive places a pod, if it fits anywhere.
func (c *tenants) arrive(pod *trace.Pod) *tenant {
	of := classOf(pod)
	if _, known := c.kinds[of]; !known {
		c.kinds[of] = len(c.kinds)
	}
	t := &tenant{pod: pod, kind: c.kinds[of]}
	if t.at, t.cards = c.Place(pod); t.placed() {
		c.on[t.at] = append(c.on[t.at], t)
		c.renew(t.at)
	}
	return t
}

// renew gives a node that has changed a version of its own.
func (c *tenants) renew(node int) {
	c.versions++
	c.Cluster.Nodes[node].Version = c.versions
}

// leave takes a pod away.
func (c *tenants) leave(t *tenant) {
	c.Remove(t.pod, t.at, t.cards)
	c.renew(t.at)
	c.on[t.at] = slices.DeleteFunc(c.on[t.at], func(other *tenant) bool { return other == t })
	t.at = nowhere
}

// enter puts a pod on a node.
func (c *tenants) enter(t *tenant, node int) {
	c.PlacePod(t, node)
	c.on[node] = append(c.on[node], t)
	t.at = node
}

// makeRoom moves pods one at a time so that one that fits nowhere gets a node, and returns the plan; there is nothing in
// it when no moves within the limits make room.
func (c *tenants) makeRoom(t *tenant, limits moves.Limits) moves.Plan[*tenant] {
	plan, ok := moves.Find(c, t, limits)
	if !ok {
		return plan
	}
	for _, move := range plan.Moves {
		c.leave(move.Pod)
		c.enter(move.Pod, move.To)
	}
	c.enter(t, plan.Node)
	return plan
}

// CountNodes implements [moves.Cluster], as do the methods below.
func (c *tenants) CountNodes() int { return len(c.Cluster.Nodes) }

// MovablePods returns all pods of a node: those of a trace can all bear it.
func (c *tenants) MovablePods(node int) []*tenant {
	movable := slices.Clone(c.on[node])
	slices.SortStableFunc(movable, byDemand)
	return movable
}

// byDemand sorts those first that ask for the most.
func byDemand(a, b *tenant) int {
	return cmp.Or(cmp.Compare(b.pod.TotalMilliGPU(), a.pod.TotalMilliGPU()), cmp.Compare(b.pod.MilliCPU, a.pod.MilliCPU),
		cmp.Compare(b.pod.MemoryMiB, a.pod.MemoryMiB))
}

// FitsOn reports whether a pod fits on a node.
func (c *tenants) FitsOn(t *tenant, node int) bool { return c.Cluster.Nodes[node].Fits(t.pod) }

// NodesWithRoom returns the node on which the policy would put the pod. There are no others: nobody tells a scheduler where to
// put a pod that has been evicted.
func (c *tenants) NodesWithRoom(t *tenant, but int) []int {
	if node, _ := c.choose(t.pod, but); node >= 0 {
		return []int{node}
	}
	return nil
}

// PlacePod puts a pod on the GPUs that the policy chooses on a node.
func (c *tenants) PlacePod(t *tenant, node int) (undo func()) {
	there := &c.Cluster.Nodes[node]
	_, t.cards = c.policy.Score(there, t.pod)
	cards, version := t.cards, there.Version
	there.place(t.pod, cards)
	c.renew(node)
	return func() {
		there.remove(t.pod, cards)
		there.Version = version
	}
}

// RemovePod takes a pod off its GPUs.
func (c *tenants) RemovePod(t *tenant, node int) (undo func()) {
	there := &c.Cluster.Nodes[node]
	cards, version := t.cards, there.Version
	there.remove(t.pod, cards)
	c.renew(node)
	return func() {
		t.cards = cards
		there.place(t.pod, cards)
		there.Version = version
	}
}

// FreeMilli is what is free of a node's GPUs.
func (c *tenants) FreeMilli(node int) int64 { return c.Cluster.Nodes[node].FreeGPU() }

// PodMilli is what a pod holds.
func (c *tenants) PodMilli(t *tenant) int64 { return t.pod.TotalMilliGPU() }

// PodClass is that of the class of a pod.
func (c *tenants) PodClass(t *tenant) int { return t.kind }

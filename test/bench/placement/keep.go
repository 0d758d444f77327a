package placement

import (
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Keeper is a policy that keeps nodes whole, so that it refuses pods that would fit.
type Keeper interface {
	// KeptFrom returns how many nodes are kept from a pod: while no more than that are idle of those that Covers, the
	// pod has to leave them alone.
	KeptFrom(pod *trace.Pod) int64
	// Covers reports whether a node is among those that are kept while they are idle.
	Covers(node *Node) bool
}

// keeper returns the policy if it keeps idle nodes from a pod as things are, else nil.
func (c *Cluster) keeper(pod *trace.Pod) Keeper {
	keeper, ok := c.policy.(Keeper)
	if !ok {
		return nil
	}
	kept := keeper.KeptFrom(pod)
	if kept == 0 {
		return nil
	}
	idle := int64(0)
	for i := range c.Nodes {
		if keeps(keeper, &c.Nodes[i]) {
			idle++
		}
	}
	if idle > kept {
		return nil
	}
	return keeper
}

// keeps reports whether a node is idle and among those that a policy keeps, if there is one.
func keeps(keeper Keeper, node *Node) bool {
	return keeper != nil && node.GPUs > 0 && node.WholeFree() == node.GPUs && keeper.Covers(node)
}

// Fits reports whether there is a node on which a pod fits, kept or not.
func (c *Cluster) Fits(pod *trace.Pod) bool {
	for i := range c.Nodes {
		if c.Nodes[i].Fits(pod) {
			return true
		}
	}
	return false
}

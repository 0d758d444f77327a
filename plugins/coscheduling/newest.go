package coscheduling

import (
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// fewChanged is how many nodes there must be for each that has changed, so that the changed ones are looked up by name.
const fewChanged = 4

// newest remembers the latest generation among the nodes of a list. Every change of a node gives its NodeInfo a generation later than
// all before, so those that have not changed need no look: at 20,000 nodes that took a third of what a member of a gang costs.
// It is used by the scheduling cycle alone.
type newest struct {
	nodes      []fwk.NodeInfo
	seen       cycle.Mark
	generation int64
}

// of returns the latest generation among the nodes of a snapshot. Which to look at it learns from the changes, if those are known.
func (n *newest) of(nodes []fwk.NodeInfo, known fwk.NodeInfoLister, changes *cycle.Changes) int64 {
	names, few := changes.Since(&n.seen, len(nodes)/fewChanged)
	if !few || !cycle.SameNodes(n.nodes, nodes) {
		n.nodes, n.generation = nodes, latest(nodes)
		return n.generation
	}
	for _, name := range names {
		if node, err := known.Get(name); err == nil { // or it is none of them
			n.generation = max(n.generation, node.GetGeneration())
		}
	}
	return n.generation
}

func latest(nodes []fwk.NodeInfo) (generation int64) {
	for _, node := range nodes {
		generation = max(generation, node.GetGeneration())
	}
	return generation
}

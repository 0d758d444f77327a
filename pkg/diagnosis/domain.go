package diagnosis

import (
	"fmt"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/topology"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// tooFarApart is about a job whose nodes have to lie in one domain of the topology, such as a rack: it says that none of
// its pool holds all of them, even when it is empty; "" if one does.
func tooFarApart(asked *workload.Resources, offers []inventory.Offer) string {
	if asked.Nodes < 2 || asked.Topology == nil || asked.Topology.Mode != workload.TopologyRequired {
		return ""
	}
	var nodes []topology.Node
	var room []int64
	for _, offer := range offers {
		nodes = append(nodes, offer.Lie...)
		for _, size := range offer.Sizes {
			room = append(room, membersIn(size, asked))
		}
	}
	levels, at := topology.LevelsTo(asked.Topology.Level)
	tree, at := topology.New(levels, at, nodes)
	level := tree.Levels[at]
	largest, most := largestDomain(tree.At(at), room)
	switch {
	case largest == nil:
		return fmt.Sprintf("its %d nodes have to lie in one %s, and no node of pool %s has the label %s, which would name it: "+
			"take another resources.topology.level, or mode: preferred", asked.Nodes, level.Name, asked.Pool, level.Key)
	case most < int64(asked.Nodes):
		return fmt.Sprintf("its %d nodes have to lie in one %s, and the largest of pool %s has room for %d of them (%s), even when it is empty",
			asked.Nodes, level.Name, asked.Pool, most, largest.Name)
	}
	return ""
}

// membersIn is how many members of a gang a node of a size holds when it is empty. What they ask beside GPUs is not
// looked at.
func membersIn(size int64, asked *workload.Resources) int64 {
	if asked.GPU == 0 {
		return int64(asked.Nodes)
	}
	return size / asked.GPU
}

// largestDomain is the domain that has the most room, with that; nil if there are none.
func largestDomain(domains []*topology.Domain, room []int64) (largest *topology.Domain, most int64) {
	for _, domain := range domains {
		total := int64(0)
		for _, node := range domain.Nodes {
			total += room[node]
		}
		if largest == nil || total > most {
			largest, most = domain, total
		}
	}
	return largest, most
}

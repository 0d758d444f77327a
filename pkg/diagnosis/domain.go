package diagnosis

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/topology"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// explainGangDomain explains a gang that no domain of its pool can hold even if empty, as its YAML asks for one. It is empty if one could, if the YAML is
// not known, or if other findings say so already.
func (s *search) explainGangDomain(known []Finding) []Finding {
	if _, named := gang.NamedGroup(s.request.Pod); !named || s.facts.Job.Submitted == "" || hasCause(known, reason.GangTopology) {
		return nil
	}
	docs, diagnostics := workload.Parse(s.facts.Job.Name, []byte(s.facts.Job.Submitted))
	if diagnostics.HasErrors() || len(docs) != 1 || docs[0].Job == nil {
		return nil
	}
	asked := &docs[0].Job.Resources
	cluster := s.buildInventory()
	offers := slices.DeleteFunc(cluster.Offers(), func(o inventory.Offer) bool {
		return o.Pool != asked.Pool || len(asked.GPUTypes) > 0 && !slices.Contains(asked.GPUTypes, o.GPUType)
	})
	says := explainDomainTooSmall(asked, offers)
	if len(offers) == 0 || len(says) == 0 {
		return nil
	}
	return singleFinding(Finding{Cause: reason.GangTopology, Message: says, Never: true,
		Steps: foundSteps(reason.Found{Reason: reason.GangDomainTooSmall}, s.facts.Job.Namespace)})
}

// explainDomainTooSmall explains a job whose nodes must be in one domain of the topology, such as a rack, when no domain of its pool could hold all of them
// even if empty. It is empty if one could.
func explainDomainTooSmall(asked *workload.Resources, offers []inventory.Offer) phrase.Text {
	if asked.Nodes < 2 || asked.Topology == nil || asked.Topology.Mode != workload.TopologyRequired {
		return nil
	}
	var nodes []topology.Node
	var room []int64
	for _, offer := range offers {
		nodes = append(nodes, offer.NodeTopology...)
		for _, size := range offer.Sizes {
			room = append(room, countMembersOnSize(size, asked))
		}
	}
	levels, at := topology.LevelsTo(asked.Topology.Level)
	tree, at := topology.New(levels, at, nodes)
	level := tree.Levels[at]
	if asked.Topology.Segment > 0 {
		return explainSegmentsTooLarge(asked, tree, at, room)
	}
	largest, most := largestDomain(tree.DomainsAt(at), room)
	switch {
	case largest == nil:
		return phrase.Textf("its %d nodes have to lie in one %s, and no node of pool %s has the label %s, which would name it: "+
			"take another resources.topology.level, or mode: preferred", asked.Nodes, level.Name, asked.Pool, level.Key)
	case most < int64(asked.Nodes):
		return phrase.Textf("its %d nodes have to lie in one %s, and the largest of pool %s has room for %d of them (%s), even when it is empty",
			asked.Nodes, level.Name, asked.Pool, most, largest.Name)
	}
	return nil
}

// explainSegmentsTooLarge explains a job whose segments must each be in one domain of a level.
func explainSegmentsTooLarge(asked *workload.Resources, tree *topology.Tree, at int, room []int64) phrase.Text {
	nodes, size := int(asked.Nodes), int(asked.Topology.Segment)
	problem := gangplan.Problem{Tree: tree, Level: -1, Roles: []int{nodes}, Segments: &gangplan.Segments{Level: at},
		Room: func(node, _ int, _ []int) int { return int(min(room[node], int64(nodes))) }}
	for rest := nodes; rest > 0; rest -= size {
		problem.Segments.All = append(problem.Segments.All, gangplan.Segment{Count: min(size, rest), Beside: -1})
	}
	near, level := gangplan.Nearest(problem), tree.Levels[at]
	switch {
	case near.Could:
		return nil
	case near.Domain == nil:
		return phrase.Textf("its %d nodes have to lie in segments of %d in one %s each, and no node of pool %s has the label %s, which would name it: "+
			"take another resources.topology.level, or mode: preferred", nodes, size, level.Name, asked.Pool, level.Key)
	}
	return phrase.Textf("its %d nodes have to lie in segments of %d in one %s each, and pool %s has room for %d of the %d, even when it is empty; "+
		"the most for the next is %d of %d in %s", nodes, size, level.Name, asked.Pool, near.Segments, len(problem.Segments.All), near.Room, near.Want, near.Domain.Name)
}

// countMembersOnSize is how many members of a gang an empty node of a size holds, judged by GPUs only.
func countMembersOnSize(size int64, asked *workload.Resources) int64 {
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

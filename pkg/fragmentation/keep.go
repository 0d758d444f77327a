package fragmentation

import "slices"

// Kept is which nodes of a pool are worth keeping whole, for the largest expected pods. The zero value is none.
type Kept struct {
	// classes are those pods, each of which takes all GPUs of such a node. pods is their number.
	classes []Class
	pods    int64
	// nodes is how many empty nodes one of them could run on.
	nodes int64
}

// NodesToKeep returns which nodes of a pool are worth keeping whole: those that some of the largest expected pods could run on, and would use as a
// whole. There are none before a third as many pods leave as arrive: while a pool only fills, a kept node is of no use.
func NodesToKeep(demand Demand, nodes map[Shape]int64, turnover float64) Kept {
	kept := Kept{}
	if turnover < fullTurnover {
		return kept
	}
	largest, _ := largestOf(demand)
	for i := range largest {
		if largest[i].Share == Whole { // shares of GPUs find room beside others
			kept.classes = append(kept.classes, largest[i].Class)
			kept.pods += largest[i].pods
		}
	}
	for shape, count := range nodes {
		if kept.CoversNode(shape) {
			kept.nodes += count
		}
	}
	return kept
}

// CountFor returns how many nodes are kept from a pod that requests so many whole GPUs, 0 for one that shares some: while no more than that are idle
// among those that [Kept.CoversNode], the pod must leave them alone. It is so many per thousand nodes worth keeping, rounded down, and never
// more than there are pods to keep them for.
func (k *Kept) CountFor(cards, perMille int64) int64 {
	if len(k.classes) == 0 || cards >= k.classes[0].Cards {
		return 0
	}
	return min(k.nodes*perMille/1000, k.pods)
}

// CoversNode reports whether an idle node is worth keeping, with so much CPU and memory left.
func (k *Kept) CoversNode(left Shape) bool {
	return slices.ContainsFunc(k.classes, func(class Class) bool {
		return left.Cards == class.Cards && left.canHold(&class)
	})
}

package fragmentation

import "slices"

// Kept is which nodes of a pool are worth keeping whole, for the largest pods to be expected. The zero value is none.
type Kept struct {
	// classes are those pods, each of which takes all cards of such a node, and pods how many of them there are.
	classes []Class
	pods    int64
	// nodes is how many nodes one of them could run on, were they empty.
	nodes int64
}

// Keep tells which nodes of a pool are worth keeping whole: those that some of the largest pods to be expected could run
// on, and would take as a whole. There are none before a third as many pods leave as come: while a pool only fills, a
// node that is kept serves nobody.
func Keep(demand Demand, nodes map[Shape]int64, turnover float64) Kept {
	kept := Kept{}
	if turnover < churning {
		return kept
	}
	largest, _ := largestOf(demand)
	for i := range largest {
		if largest[i].Share == Whole { // shares of cards find room beside others
			kept.classes = append(kept.classes, largest[i].Class)
			kept.pods += largest[i].pods
		}
	}
	for shape, count := range nodes {
		if kept.Covers(shape) {
			kept.nodes += count
		}
	}
	return kept
}

// From returns how many nodes are kept from a pod that asks for so many cards as a whole, 0 for one that shares some:
// while no more than that are idle of those that [Kept.Covers], it has to leave them alone. It is so many in a thousand of
// the nodes worth keeping, rounded down, and never more than there are pods to keep them for.
func (k *Kept) From(cards, perMille int64) int64 {
	if len(k.classes) == 0 || cards >= k.classes[0].Cards {
		return 0
	}
	return min(k.nodes*perMille/1000, k.pods)
}

// Covers reports whether a node none of whose cards is in use is worth keeping, when so much is left beside them.
func (k *Kept) Covers(left Shape) bool {
	return slices.ContainsFunc(k.classes, func(class Class) bool {
		return left.Cards == class.Cards && left.holds(&class)
	})
}

package fragmentation

import (
	"math"
	"strings"
)

const (
	// step is the unit of values, in thousandths of a card. Finer differences are below what the estimate of the demand
	// knows; acting on them scatters pods over the nodes.
	step = Whole / 50
	// Fraction is how many units of value make a point of a node's score, which is a tenth of a card.
	Fraction = Whole / 10 / step
	// wakeCost is what it costs, in thousandths of a card, to take something of an idle node that could take one of
	// the largest pods to be expected, and gatherCost to take a card where as many are unused as such a pod asks for.
	// They decide between placements that waste much the same, and no more.
	wakeCost   = Whole / 20
	gatherCost = Whole / 8
	// neutral is the value of a placement without waste, best the highest. Values above neutral are for pods that make
	// use of cards which are as good as lost.
	neutral = 50 * Fraction
	best    = 100 * Fraction
)

// Node is what is left of a node.
type Node struct {
	// Free is the value of its free cards: the sum of [Model.Card] over all of them.
	Free float64
	// MilliCPU and MemoryMiB are what no pod has asked for.
	MilliCPU, MemoryMiB int64
	// Cards is how many cards it has, Unused how many of them nobody uses.
	Cards, Unused int64
	// Pressure is that of the type of its cards: see [Pressure].
	Pressure float64
}

// Waste is what a pod of a class costs on a node beyond what it is worth, in thousandths of a card, when the free cards
// are worth so much with it. A pod that asks for no cards has a class of 0 of them.
func (m *Model) Waste(node *Node, class *Class, freeAfter float64) float64 {
	loss := m.Node(node.Free, node.MilliCPU, node.MemoryMiB) -
		m.Node(freeAfter, rest(node.MilliCPU, class.MilliCPU), rest(node.MemoryMiB, class.MemoryMiB))
	if class.Cards > 0 {
		loss += node.Pressure*float64(class.Cards)*float64(class.Share) - m.worth(class)
		loss += gatherCost * min(float64(node.Unused)/float64(m.largest), 1)
	}
	if node.Unused == node.Cards && node.Cards >= m.largest && class.Cards < m.largest {
		loss += wakeCost
	}
	return loss
}

// rest is what is left when so much is taken, at least 0. Neither is below 0, so that it cannot wrap.
func rest(left, taken int64) int64 { return max(max(left, 0)-max(taken, 0), 0) }

// Value puts waste on the scale of node scores, in units of which [Fraction] make a point: 50 points for none, one less
// for each tenth of a card, within 0 and 100. Waste that is no number is worth 0: a score out of range would fail the pod.
func Value(waste float64) int64 {
	if math.IsNaN(waste) {
		return 0
	}
	return int64(min(max(neutral-math.Floor(waste/step), 0), best))
}

// Pressure tells how sought after each type of card is: the share of the demand that names it, divided by the share of
// all cards that are of it. A class that names several types presses on them in proportion to their cards. Pods that
// do not care for the type should leave such cards alone, and those that do have no choice, so that it makes no
// difference to them. Types that nobody names have no pressure.
func Pressure(demand Demand, capacity map[string]int64) map[string]float64 {
	all := int64(0)
	for _, cards := range capacity {
		all += cards
	}
	classes, asked := heaviest(demand), 0.0
	for i := range classes {
		asked += classes[i].milli()
	}
	pressure := map[string]float64{}
	for i := range classes {
		types := strings.Split(classes[i].Types, ",")
		named := int64(0)
		for _, name := range types {
			named += capacity[name]
		}
		if classes[i].Types == "" || named == 0 {
			continue
		}
		share := classes[i].milli() / asked
		for _, name := range types {
			pressure[name] += share * float64(all) / float64(named)
		}
	}
	return pressure
}

// Rank orders nodes: by value, and among equals one that is in use before one that is idle.
func Rank(value int64, inUse bool) int64 {
	rank := 2 * value
	if inUse {
		rank++
	}
	return rank
}

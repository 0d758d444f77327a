package fragmentation

import (
	"math"
	"strings"
)

const (
	// step is the unit of values, in thousandths of a card.
	step = Whole / 1000
	// Fraction is how many units of value make a point of a node's score, which is a tenth of a card.
	Fraction = Whole / 10 / step
	// gatherCost is what it costs, in thousandths of a card, to take a card where as many are unused as the largest pod
	// to be expected asks for, and looseCost to leave all but nothing of a shared card unused. wakeCost is what it costs
	// to take something of an idle node that could take such a pod, and largeCost what that costs more if nothing but
	// such pods were expected. They decide between placements that waste much the same.
	gatherCost = Whole / 10
	looseCost  = 70
	wakeCost   = 60
	largeCost  = Whole / 10
	// regained is how much less waste counts where a pod leaves for each that comes. Waste comes to an end when a
	// neighbour leaves, which it does soon there, whereas a whole node only comes back when all its pods have left.
	regained = 15
	// vacated is how likely a card that is in use is free before its node is broken into, where a pod leaves for each
	// that comes.
	vacated = 0.7
	// churning is the turnover from which on it counts in full how many of the largest pods depend on a node. While a
	// cluster only fills it does not: there are nodes enough then until there are none.
	churning = 1. / 3
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
	// Pressure is that of the type of its cards, Scarcity that of its shape: see [Pressure] and [Scarcity].
	Pressure, Scarcity float64
}

// After is what a pod leaves of a node's cards.
type After struct {
	// Free is the value of the free cards.
	Free float64
	// Rest is what is left of the cards that the pod is on, in thousandths of a card.
	Rest int64
}

// Waste is what a pod of a class costs on a node beyond what it is worth, in thousandths of a card, when it leaves so
// much of the cards. A pod that asks for no cards has a class of 0 of them.
func (m *Model) Waste(node *Node, class *Class, after After) float64 {
	waste := m.Node(node.Free, node.MilliCPU, node.MemoryMiB) -
		m.Node(after.Free, rest(node.MilliCPU, class.MilliCPU), rest(node.MemoryMiB, class.MemoryMiB))
	if class.Cards > 0 {
		waste -= m.worth(class)
	}
	return waste/(1+regained*m.turnover) + m.structure(node, class, after.Rest)
}

// structure is what a pod of a class costs by the cards that it takes, whatever the expected shares make of them: cards of
// a type that others insist on, cards that lay together, what is left of a shared one, and a node for a large pod.
func (m *Model) structure(node *Node, class *Class, rest int64) float64 {
	cost := 0.0
	if class.Cards > 0 {
		insisted := node.Pressure * float64(class.Cards) * float64(class.Share)
		scattered := gatherCost * min(float64(node.Unused)/float64(m.largest), 1)
		loose := looseCost * float64(rest) / Whole
		cost = insisted + scattered + loose
	}
	if node.Cards >= m.largest && class.Cards < m.largest { // one of the largest pods might have had the node
		busy := float64(node.Cards - node.Unused)
		cost += m.wake(node) * math.Pow(vacated*m.turnover, busy) // 1 for an idle node, also where no pod leaves
	}
	return cost
}

// wake is what it costs to take something of a node, were it idle, that has the cards for one of the largest pods.
func (m *Model) wake(node *Node) float64 {
	return (wakeCost + largeCost*m.large) * (1 + min(m.turnover/churning, 1)*(node.Scarcity-1))
}

// rest is what is left when so much is taken, at least 0. Neither is below 0, so that it cannot wrap.
func rest(left, taken int64) int64 { return max(max(left, 0)-max(taken, 0), 0) }

// Value puts waste on the scale of node scores, in units of which [Fraction] make a point: 50 points for none, one less
// for each tenth of a card, within 0 and 100. Waste that is no number is worth 0: a score out of range would fail the pod.
func Value(waste float64) int64 {
	if math.IsNaN(waste) {
		return 0
	}
	return int64(min(max(neutral-math.Round(waste/step), 0), best))
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

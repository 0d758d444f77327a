package fragmentation

import (
	"math"
	"strings"
)

const (
	// step is the unit of values, in thousandths of a GPU.
	step = Whole / 1000
	// Fraction is how many units of value make a point of a node's score, which is a tenth of a GPU.
	Fraction = Whole / 10 / step
	// gatherCost is the cost, in thousandths of a GPU, of taking a GPU where as many are unused as the largest expected pod requests. looseCost
	// is the cost of leaving all but nothing of a shared GPU unused. wakeCost is the cost of taking something of an idle node that could take
	// such a pod, and largeCost the additional cost if nothing but such pods were expected. They decide between placements with similar waste.
	gatherCost = Whole / 10
	looseCost  = 70
	wakeCost   = 60
	largeCost  = Whole / 10
	// regained is how much less waste counts if a pod leaves for each one that arrives. Waste ends when a neighbor leaves, which is soon then,
	// whereas a whole node only becomes free when all its pods have left.
	regained = 15
	// vacated is the probability that a GPU in use becomes free before its node is broken into, if a pod leaves for each one that arrives.
	vacated = 0.7
	// fullTurnover is the turnover from which on the dependency of the largest pods on a node counts in full. While a cluster only fills it does not
	// count: there are enough nodes then until there are none.
	fullTurnover = 1. / 3
	// neutral is the value of a placement without waste, best the highest. Values above neutral are for pods that use otherwise lost GPUs.
	neutral = 50 * Fraction
	best    = 100 * Fraction
)

// Node is what is left of a node.
type Node struct {
	// Free is the value of its free GPUs: the sum of [Model.GPUValue] over all of them.
	Free float64
	// MilliCPU and MemoryMiB are the unrequested amounts.
	MilliCPU, MemoryMiB int64
	// Cards is the number of its GPUs, Unused how many of them no pod uses.
	Cards, Unused int64
	// Pressure is that of the type of its GPUs, Scarcity that of its shape: see [ComputePressure] and [ComputeScarcity].
	Pressure, Scarcity float64
	// Needs are those for idle nodes with its type of GPUs, the most likely first: see [ComputeNeeds].
	Needs []Need
}

// After is what a pod leaves of a node's GPUs.
type After struct {
	// Free is the value of the free GPUs.
	Free float64
	// Rest is the remainder of the pod's GPUs, in thousandths of a GPU.
	Rest int64
}

// PodWaste is the cost of a pod of a class on a node beyond its own value, in thousandths of a GPU, if it leaves so much of the GPUs. A pod that
// requests no GPUs has a class with 0 of them.
func (m *Model) PodWaste(node *Node, class *Class, after After) float64 {
	waste := m.NodeValue(node.Free, node.MilliCPU, node.MemoryMiB) -
		m.NodeValue(after.Free, leftAfter(node.MilliCPU, class.MilliCPU), leftAfter(node.MemoryMiB, class.MemoryMiB))
	if class.Cards > 0 {
		waste -= m.podWorth(class)
	}
	return waste/(1+regained*m.turnover) + m.structureCost(node, class, after.Rest)
}

// structureCost is the cost of a pod of a class due to the GPUs that it takes, regardless of the expected shares: GPUs of a type that other pods
// insist on, adjacent GPUs, the remainder of a shared GPU, and a node for a large pod.
func (m *Model) structureCost(node *Node, class *Class, rest int64) float64 {
	cost := 0.0
	if class.Cards > 0 {
		insisted := node.Pressure * float64(class.Cards) * float64(class.Share)
		scattered := gatherCost * min(float64(node.Unused)/float64(m.largest), 1)
		loose := looseCost * float64(rest) / Whole
		cost = insisted + scattered + loose
	}
	if node.Cards >= m.largest && class.Cards < m.largest { // one of the largest pods might have had the node
		busy := float64(node.Cards - node.Unused)
		cost += m.idleNodeCost(node)*math.Pow(vacated*m.turnover, busy) + m.neededCost(node, class) // 0⁰ = 1: idle, and no pod leaves
	}
	return cost
}

// idleNodeCost returns the cost of breaking into a node, were it idle, that has the GPUs for one of the largest pods.
func (m *Model) idleNodeCost(node *Node) float64 {
	return (wakeCost + largeCost*m.large) * (1 + min(m.turnover/fullTurnover, 1)*(node.Scarcity-1))
}

// neededCost returns what a pod costs the largest pods on an idle node that they take as a whole: all its GPUs, to the extent that the node is needed and
// of no use to them afterwards. Where pods leave, the remainder of the pool does not tell how many are still to come.
func (m *Model) neededCost(node *Node, class *Class) float64 {
	if node.Unused < node.Cards || node.Cards != m.largest || m.turnover >= fullTurnover {
		return 0
	}
	lost := needFor(node.Needs, node.MilliCPU, node.MemoryMiB)
	if class.Cards == 0 {
		lost -= needFor(node.Needs, node.MilliCPU-class.MilliCPU, node.MemoryMiB-class.MemoryMiB)
	}
	return float64(node.Cards) * Whole * lost * (1 - m.turnover/fullTurnover)
}

// leftAfter returns what remains of an amount, at least 0. Neither operand is below 0, so that it cannot wrap.
func leftAfter(left, taken int64) int64 { return max(max(left, 0)-max(taken, 0), 0) }

// ScoreOfWaste converts waste to node scores, in units of which [Fraction] make a point: 50 points for none, one less for each tenth of a GPU,
// within 0 and 100. Waste that is not a number is worth 0: a score out of range would fail the pod.
func ScoreOfWaste(waste float64) int64 {
	if math.IsNaN(waste) {
		return 0
	}
	return int64(min(max(neutral-math.Round(waste/step), 0), best))
}

// ComputePressure computes the demand for each type of GPU: the share of the demand that names it, divided by the share of all GPUs that are of it. A
// class that names several types counts in proportion to their GPUs. Pods that accept any type should leave such GPUs alone, and those that do
// not have no choice, so it makes no difference to them. Types that no class names have no pressure.
func ComputePressure(demand Demand, capacity map[string]int64) map[string]float64 {
	all := int64(0)
	for _, cards := range capacity {
		all += cards
	}
	classes, asked := heaviestClasses(demand), 0.0
	for i := range classes {
		asked += classes[i].totalThousandths()
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
		share := classes[i].totalThousandths() / asked
		for _, name := range types {
			pressure[name] += share * float64(all) / float64(named)
		}
	}
	return pressure
}

// NodeRank orders nodes: by value, and among equals a node in use before an idle one.
func NodeRank(value int64, inUse bool) int64 {
	rank := 2 * value
	if inUse {
		rank++
	}
	return rank
}

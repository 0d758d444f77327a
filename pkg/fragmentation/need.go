package fragmentation

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// IdleNodes counts the nodes of a pool without a GPU in use, by what is left of them.
type IdleNodes map[Shape]int64

// Need is the probability that pods which take whole nodes will need each idle node with so much CPU and memory left.
type Need struct {
	MilliCPU, MemoryMiB int64
	Probability         float64
}

// priorPods is how many pods a class counts for beyond the known ones. It is Jeffreys' prior for the rate of a Poisson process.
const priorPods = 0.5

// ComputeNeeds computes the needs for idle nodes by GPU type, the greatest first, for those of the largest expected pods that take whole nodes.
//
// While a pool fills, the pods that still find room request what the known pods have left of it. How many of them are of a class follows a negative
// binomial distribution, if all that is known of the class is how many came: a Poisson distribution with an uncertain rate. A node is needed if at
// least as many come as idle nodes can hold them (Littlewood's rule of revenue management). Pods that could use the same nodes only, or fewer,
// compete with the class, so they are counted with it.
func ComputeNeeds(demand Demand, idle IdleNodes, capacity map[string]int64) map[string][]Need {
	ahead := computeAhead(demand, capacity)
	largest, _ := largestOf(demand)
	needs := map[string][]Need{}
	for i := range largest {
		class := &largest[i].Class
		nodes := countTakenWhole(idle, class)
		if nodes == 0 {
			continue
		}
		need := Need{class.MilliCPU, class.MemoryMiB, probabilityOfMore(countRivals(largest, class), ahead, float64(nodes))}
		for name := range capacity {
			if class.acceptsType(name) {
				needs[name] = append(needs[name], need)
			}
		}
	}
	for _, ofType := range needs {
		slices.SortFunc(ofType, func(a, b Need) int {
			return cmp.Or(cmp.Compare(b.Probability, a.Probability), cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
		})
	}
	return needs
}

// computeAhead returns how many times the known demand is still to come until a pool is full.
func computeAhead(demand Demand, capacity map[string]int64) float64 {
	all, asked := 0.0, 0.0
	for _, cards := range capacity {
		all += float64(cards) * Whole
	}
	for class, pods := range demand {
		expected := expectedClass{class, pods}
		asked += expected.totalThousandths()
	}
	return max(all/max(asked, 1)-1, 0)
}

// countTakenWhole counts the idle nodes that a pod of a class could take as a whole.
func countTakenWhole(idle IdleNodes, class *Class) int64 {
	count := int64(0)
	for left, nodes := range idle {
		if class.Share == Whole && left.Cards == class.Cards && left.canHold(class) {
			count += nodes
		}
	}
	return count
}

// countRivals counts the expected pods that cannot use any node that pods of a class cannot, with the prior.
func countRivals(largest []expectedClass, class *Class) float64 {
	rivals := priorPods
	for i := range largest {
		if largest[i].needsAll(class) {
			rivals += float64(largest[i].pods)
		}
	}
	return rivals
}

// probabilityOfMore returns the probability that at least so many pods arrive, where seen came so far and ahead times as long lies ahead. It approximates
// the negative binomial distribution by a normal one.
func probabilityOfMore(seen, ahead, pods float64) float64 {
	mean := seen * ahead
	if mean <= 0 {
		return 0
	}
	deviation := math.Sqrt(mean * (1 + ahead))
	return math.Erfc((pods-0.5-mean)/(deviation*math.Sqrt2)) / 2
}

// needFor returns the need for an idle node with so much left.
func needFor(needs []Need, milliCPU, memoryMiB int64) float64 {
	for i := range needs {
		if needs[i].MilliCPU <= milliCPU && needs[i].MemoryMiB <= memoryMiB {
			return needs[i].Probability
		}
	}
	return 0
}

// acceptsType reports whether pods of the class may run on GPUs of a type.
func (c *Class) acceptsType(name string) bool {
	return c.Types == "" || slices.Contains(strings.Split(c.Types, ","), name)
}

// needsAll reports whether each node that could hold a pod of the class could also hold one of another class with as many GPUs.
func (c *Class) needsAll(other *Class) bool {
	if c.Share < other.Share || c.MilliCPU < other.MilliCPU || c.MemoryMiB < other.MemoryMiB {
		return false
	}
	return other.Types == "" || c.Types != "" &&
		!slices.ContainsFunc(strings.Split(c.Types, ","), func(name string) bool { return !other.acceptsType(name) })
}

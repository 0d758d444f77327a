package fragmentation

import "slices"

// Shape is what a node has when nothing runs on it.
type Shape struct {
	Cards, MilliCPU, MemoryMiB int64
	// Type is the type of its GPUs.
	Type string
}

// maxLargest bounds the classes of the largest pods for ComputeScarcity: those with the largest total requests.
const maxLargest = 64

// minLargest is the assumed number of GPUs of the largest expected pod if all request fewer.
const minLargest = 2

// ComputeScarcity computes how much the largest expected pods depend on nodes of each shape: 1 if each such pod could run on each node with enough
// GPUs, more if some of them can run on few other nodes, 0 if none can run.
//
//	scarcity(shape) = sum over the classes that fit, of the share of the class × all nodes with the GPUs / those that fit it
func ComputeScarcity(demand Demand, nodes map[Shape]int64) map[Shape]float64 {
	largest, asked := largestOf(demand)
	if len(largest) == 0 { // then they are only known to request several GPUs
		largest, asked = []expectedClass{{Class{Cards: minLargest, Share: Whole}, 1}}, minLargest*Whole
	}
	all := countHolding(nodes, &Class{Cards: largest[0].Cards})
	scarcity := map[Shape]float64{}
	for i := range largest {
		class := &largest[i]
		fit := countHolding(nodes, &class.Class)
		for shape := range nodes {
			if shape.canHold(&class.Class) {
				scarcity[shape] += class.totalThousandths() / asked * all / fit
			}
		}
	}
	return scarcity
}

// countHolding counts the empty nodes that have room for a pod of a class.
func countHolding(nodes map[Shape]int64, class *Class) float64 {
	sum := int64(0)
	for shape, count := range nodes {
		if shape.canHold(class) {
			sum += count
		}
	}
	return float64(sum)
}

// largestOf returns the classes of the pods with the most GPUs each, and their total request.
func largestOf(demand Demand) (largest []expectedClass, asked float64) {
	classes, cards := heaviestClasses(demand), int64(minLargest)
	for i := range classes {
		cards = max(cards, classes[i].Cards)
	}
	largest = slices.DeleteFunc(classes, func(e expectedClass) bool { return e.Cards < cards })
	largest = largest[:min(len(largest), maxLargest)]
	for i := range largest {
		asked += largest[i].totalThousandths()
	}
	return largest, asked
}

// canHold reports whether an empty node has room for a pod of a class.
func (s Shape) canHold(class *Class) bool {
	return s.Cards >= class.Cards && s.MilliCPU >= class.MilliCPU && s.MemoryMiB >= class.MemoryMiB &&
		class.acceptsType(s.Type)
}

// Package fragmentation scores the free resources of a node by their use for the expected pods, and so determines what a pod would spoil there.
// It is pure: it turns the expected demand into a Model, and a Model answers in constant time and without allocation. docs/fragmentation.md
// derives the formula.
//
// In short: a free GPU is worth 1000, and the remainder of a shared one the best combination of expected shares in it, at the prices that the
// shares have when GPUs are cut optimally (a cutting-stock problem). The free GPUs of a node are worth only as much as the CPU and memory beside
// them can feed. A pod costs the value of the node before it, less the value after it, less the value of the pod itself.
package fragmentation

import (
	"cmp"
	"slices"
)

// Whole is a GPU, in the unit of shares and values.
const Whole = 1000

// Class is pods with equal requests.
type Class struct {
	// Cards is the number of different GPUs, at least 1.
	Cards int64
	// Share is the part of each, in thousandths; [Whole] is a GPU of its own.
	Share int64
	// MilliCPU and MemoryMiB are requested from the node beside the GPUs.
	MilliCPU, MemoryMiB int64
	// Types are the acceptable GPU types, separated by commas; "" is any.
	Types string
}

// Demand is the expected number of pods of each class. Only the proportions matter.
type Demand map[Class]int64

// Model scores nodes for one demand. It never changes.
type Model struct {
	card        [Whole + 1]float64
	cpu, memory yieldCurve
	// largest is the number of GPUs of the largest expected pod, at least 2. large is the share of all requested GPUs that pods of that size
	// request.
	largest int64
	large   float64
	// turnover is how many pods leave for each one that arrives, 0–1.
	turnover float64
}

// Bounds of a model's demand: the classes that request the most GPUs together, and among these the sizes of shares, which determine the time to
// build a model.
const (
	maxClasses = 1024
	maxSizes   = 48
)

// NewModel returns the model of a demand, with so many pods leaving for each one that arrives (see [Turnover]). An empty demand is one for whole
// GPUs alone.
func NewModel(demand Demand, turnover float64) *Model {
	classes := heaviestClasses(demand)
	m := &Model{card: gpuValues(countShares(classes)), largest: minLargest, turnover: min(max(turnover, 0), 1)}
	cpu, memory := make([]resourceYield, len(classes)), make([]resourceYield, len(classes))
	for i := range classes {
		class, weight := &classes[i].Class, classes[i].totalThousandths()
		m.largest = max(m.largest, class.Cards)
		value := m.podWorth(class)
		cpu[i] = resourceYield{weight, value / float64(max(class.MilliCPU, 1))}
		memory[i] = resourceYield{weight, value / float64(max(class.MemoryMiB, 1))}
	}
	m.cpu, m.memory = newYieldCurve(cpu), newYieldCurve(memory)
	m.large = shareOf(classes, m.largest)
	return m
}

// shareOf returns the share of all requested GPUs that pods with so many GPUs request.
func shareOf(classes []expectedClass, cards int64) float64 {
	all, these := 0.0, 0.0
	for i := range classes {
		all += classes[i].totalThousandths()
		if classes[i].Cards == cards {
			these += classes[i].totalThousandths()
		}
	}
	return these / max(all, 1)
}

// expectedClass is a class and how many pods of it are expected.
type expectedClass struct {
	Class
	pods int64
}

// totalThousandths returns the total request of the pods of a class, in thousandths of a GPU. Unlike an integer it cannot wrap.
func (e *expectedClass) totalThousandths() float64 {
	return float64(e.pods) * float64(e.Cards) * float64(e.Share)
}

// heaviestClasses returns the classes with the largest total requests, in an order that depends on the demand alone.
func heaviestClasses(demand Demand) []expectedClass {
	all := make([]expectedClass, 0, len(demand))
	for class, pods := range demand {
		if pods > 0 && class.Cards > 0 && class.Share > 0 && class.Share <= Whole {
			all = append(all, expectedClass{class, pods})
		}
	}
	slices.SortFunc(all, func(a, b expectedClass) int {
		return cmp.Or(cmp.Compare(b.totalThousandths(), a.totalThousandths()), cmp.Compare(a.Cards, b.Cards), cmp.Compare(a.Share, b.Share),
			cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.Types, b.Types))
	})
	return all[:min(len(all), maxClasses)]
}

// countShares counts the pods that share GPUs, by their share.
func countShares(classes []expectedClass) map[int64]float64 {
	counts := map[int64]float64{}
	for i := range classes {
		if _, known := counts[classes[i].Share]; classes[i].Share < Whole && (known || len(counts) < maxSizes) {
			counts[classes[i].Share] += float64(classes[i].pods) * float64(classes[i].Cards)
		}
	}
	return counts
}

// GPUValue returns the value of a GPU of which so many thousandths are free.
func (m *Model) GPUValue(free int64) float64 { return m.card[min(max(free, 0), Whole)] }

// SharePrice returns the value of a share of one GPU: what a GPU loses that is cut for it.
func (m *Model) SharePrice(share int64) float64 { return m.card[Whole] - m.GPUValue(Whole-share) }

// podWorth is the value of a pod.
func (m *Model) podWorth(class *Class) float64 {
	return float64(class.Cards) * m.SharePrice(class.Share)
}

// NodeValue returns the value of a node: of its free GPUs, as far as the remaining CPU and memory can feed them.
func (m *Model) NodeValue(cards float64, milliCPU, memoryMiB int64) float64 {
	if cards <= 0 {
		return 0
	}
	return min(m.cpu.usableValue(cards, milliCPU), m.memory.usableValue(cards, memoryMiB))
}

// resourceYield is how a class uses one resource beside its GPUs.
type resourceYield struct {
	// weight is the share of GPUs that the class requests.
	weight float64
	// yield is the value of GPUs that one unit of the resource makes usable.
	yield float64
}

// yieldCurve determines how much of the value of free GPUs is usable with the remaining amount of a resource. If the node were filled by pods of one
// class, that would be the lesser of the value and the yield of the resource; the classes contribute in proportion to their requested GPUs. As a
// function of the resource it is concave and piecewise linear:
//
//	value(v, r) = sum over classes of weight * min(v, r * yield)
type yieldCurve struct {
	// yields ascend. weights and products are sums over the classes before each: of weight, and of weight * yield.
	yields, weights, products []float64
}

func newYieldCurve(classes []resourceYield) yieldCurve {
	slices.SortFunc(classes, func(a, b resourceYield) int { return cmp.Compare(a.yield, b.yield) })
	total := 0.0
	for _, class := range classes {
		total += class.weight
	}
	f := yieldCurve{weights: []float64{0}, products: []float64{0}}
	for i, class := range classes {
		weight := class.weight / total
		f.yields = append(f.yields, class.yield)
		f.weights = append(f.weights, f.weights[i]+weight)
		f.products = append(f.products, f.products[i]+weight*class.yield)
	}
	return f
}

func (f *yieldCurve) usableValue(cards float64, left int64) float64 {
	if len(f.yields) == 0 {
		return cards
	}
	resource := float64(max(left, 0))
	starved, end := 0, len(f.yields) // classes whose pods run out of the resource before they run out of GPUs
	for starved < end {
		if middle := (starved + end) / 2; f.yields[middle]*resource < cards {
			starved = middle + 1
		} else {
			end = middle
		}
	}
	return f.products[starved]*resource + (1-f.weights[starved])*cards
}

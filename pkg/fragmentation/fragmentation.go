// Package fragmentation values what is free on a node by what the pods to be expected could make of it, and so tells
// what a pod would spoil there. It is pure: the expected demand goes in, a Model comes out, and a Model answers in
// constant time and without allocation. docs/fragmentation.md derives the formula.
//
// In short: a free card is worth 1000, and the rest of a shared one what the best combination of expected shares
// makes of it, at the prices that the shares have when cards are cut optimally (a cutting-stock problem). The free
// cards of a node are worth only as much as the CPU and memory beside them can feed. A pod costs what the node is
// worth before it, less what it is worth after it, less what the pod is worth itself.
package fragmentation

import (
	"cmp"
	"slices"
)

// Whole is a card, in the unit of shares and values.
const Whole = 1000

// Class is pods that ask for the same.
type Class struct {
	// Cards is how many different cards, at least 1.
	Cards int64
	// Share is how much of each, in thousandths; [Whole] is a card for itself.
	Share int64
	// MilliCPU and MemoryMiB are asked of the node beside the cards.
	MilliCPU, MemoryMiB int64
	// Types are the card types that will do, separated by commas; "" is any.
	Types string
}

// Demand is how many pods of each class are expected. Only the proportions count.
type Demand map[Class]int64

// Model values nodes for one demand. It never changes.
type Model struct {
	card        [Whole + 1]float64
	cpu, memory feed
	// largest is how many cards the largest pod to be expected asks for, at least 2, and large the share of all cards
	// asked for that pods of that size ask for.
	largest int64
	large   float64
	// turnover is how many pods leave for each that comes, 0–1.
	turnover float64
}

// Bounds of what a model keeps of a demand: the classes that ask for the most cards together, and of these the sizes
// of shares, which the time to build a model grows with.
const (
	maxClasses = 1024
	maxSizes   = 48
)

// NewModel returns the model of a demand, where so many pods leave for each that comes (see [Turnover]). An empty
// demand is one for whole cards alone.
func NewModel(demand Demand, turnover float64) *Model {
	classes := heaviest(demand)
	m := &Model{card: cardValues(shares(classes)), largest: minLargest, turnover: min(max(turnover, 0), 1)}
	cpu, memory := make([]hunger, len(classes)), make([]hunger, len(classes))
	for i := range classes {
		class, weight := &classes[i].Class, classes[i].milli()
		m.largest = max(m.largest, class.Cards)
		value := m.worth(class)
		cpu[i] = hunger{weight, value / float64(max(class.MilliCPU, 1))}
		memory[i] = hunger{weight, value / float64(max(class.MemoryMiB, 1))}
	}
	m.cpu, m.memory = newFeed(cpu), newFeed(memory)
	m.large = shareOf(classes, m.largest)
	return m
}

// shareOf is the share of all cards asked for that pods of so many ask for.
func shareOf(classes []expected, cards int64) float64 {
	all, these := 0.0, 0.0
	for i := range classes {
		all += classes[i].milli()
		if classes[i].Cards == cards {
			these += classes[i].milli()
		}
	}
	return these / max(all, 1)
}

// expected is a class and how many pods of it are expected.
type expected struct {
	Class
	pods int64
}

// milli is what the pods of a class ask for together, in thousandths of a card. Unlike an integer it cannot wrap.
func (e *expected) milli() float64 { return float64(e.pods) * float64(e.Cards) * float64(e.Share) }

// heaviest returns the classes that ask for the most, in an order that follows from the demand alone.
func heaviest(demand Demand) []expected {
	all := make([]expected, 0, len(demand))
	for class, pods := range demand {
		if pods > 0 && class.Cards > 0 && class.Share > 0 && class.Share <= Whole {
			all = append(all, expected{class, pods})
		}
	}
	slices.SortFunc(all, func(a, b expected) int {
		return cmp.Or(cmp.Compare(b.milli(), a.milli()), cmp.Compare(a.Cards, b.Cards), cmp.Compare(a.Share, b.Share),
			cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.Types, b.Types))
	})
	return all[:min(len(all), maxClasses)]
}

// shares counts the pods that share cards, by their share.
func shares(classes []expected) map[int64]float64 {
	counts := map[int64]float64{}
	for i := range classes {
		if _, known := counts[classes[i].Share]; classes[i].Share < Whole && (known || len(counts) < maxSizes) {
			counts[classes[i].Share] += float64(classes[i].pods) * float64(classes[i].Cards)
		}
	}
	return counts
}

// Card is the value of a card of which so many thousandths are free.
func (m *Model) Card(free int64) float64 { return m.card[min(max(free, 0), Whole)] }

// Price is the value of a share of one card: what a card loses that is cut for it.
func (m *Model) Price(share int64) float64 { return m.card[Whole] - m.Card(Whole-share) }

// worth is the value of a pod.
func (m *Model) worth(class *Class) float64 { return float64(class.Cards) * m.Price(class.Share) }

// Node is the value of a node: of its free cards, as far as the CPU and the memory that are left can feed them.
func (m *Model) Node(cards float64, milliCPU, memoryMiB int64) float64 {
	if cards <= 0 {
		return 0
	}
	return min(m.cpu.value(cards, milliCPU), m.memory.value(cards, memoryMiB))
}

// hunger is how a class feeds on one resource beside its cards.
type hunger struct {
	// weight is the share of cards that the class asks for.
	weight float64
	// yield is the value of cards that one unit of the resource makes use of.
	yield float64
}

// feed tells how much of the value of free cards can be made use of with what is left of a resource. Were the node
// filled by pods of one class, that would be the lesser of the value and what the resource yields; the classes share
// in it by the cards that they ask for. As a function of the resource it is concave and made of straight lines:
//
//	value(v, r) = sum over classes of weight * min(v, r * yield)
type feed struct {
	// yields ascend. weights and products are sums over the classes before each: of weight, and of weight * yield.
	yields, weights, products []float64
}

func newFeed(classes []hunger) feed {
	slices.SortFunc(classes, func(a, b hunger) int { return cmp.Compare(a.yield, b.yield) })
	total := 0.0
	for _, class := range classes {
		total += class.weight
	}
	f := feed{weights: []float64{0}, products: []float64{0}}
	for i, class := range classes {
		weight := class.weight / total
		f.yields = append(f.yields, class.yield)
		f.weights = append(f.weights, f.weights[i]+weight)
		f.products = append(f.products, f.products[i]+weight*class.yield)
	}
	return f
}

func (f *feed) value(cards float64, left int64) float64 {
	if len(f.yields) == 0 {
		return cards
	}
	resource := float64(max(left, 0))
	starved, end := 0, len(f.yields) // classes whose pods run out of the resource before they run out of cards
	for starved < end {
		if middle := (starved + end) / 2; f.yields[middle]*resource < cards {
			starved = middle + 1
		} else {
			end = middle
		}
	}
	return f.products[starved]*resource + (1-f.weights[starved])*cards
}

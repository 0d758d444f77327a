package placement

import (
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/simulate/openb"
)

// LeastFragmentation is the strategy of that name of our plugin GPUScore, on the nodes and pods of a trace: the same
// formula, which learns the demand from the pods that have come, and the same rule for equals.
type LeastFragmentation struct {
	model    *fragmentation.Model
	pressure map[string]float64
	scarcity map[fragmentation.Shape]float64
	kept     fragmentation.Kept
	capacity map[string]int64
	shapes   map[fragmentation.Shape]int64
	demand   fragmentation.Demand
	pace     fragmentation.Pace
	turnover fragmentation.Turnover
	// present are the pods with GPUs that run or wait, came and left those that have since the last model.
	present, came, left int64
	// perMille of the nodes for the largest pods are kept whole.
	perMille int64
}

// NewLeastFragmentation returns the policy for a cluster, that keeps so many whole in a thousand of the nodes for the
// largest pods. It has seen no pod yet.
func NewLeastFragmentation(nodes []openb.Node, perMille int64) *LeastFragmentation {
	p := &LeastFragmentation{
		perMille: perMille, capacity: map[string]int64{}, shapes: map[fragmentation.Shape]int64{}, demand: fragmentation.Demand{},
	}
	for i := range nodes {
		p.capacity[nodes[i].Model] += nodes[i].GPUs
		p.shapes[shapeOf(&nodes[i])]++
	}
	return p
}

// Observe implements Observer. Like our plugin, it counts who comes from its first pod on.
func (p *LeastFragmentation) Observe(pod *openb.Pod) bool {
	if pod.GPUs > 0 {
		p.demand[cardClass(pod)]++
		p.present++
		if p.model != nil {
			p.came++
		}
	}
	if !p.pace.Due(p.present) {
		return false
	}
	turnover := p.turnover.Next(p.came, p.left)
	p.model = fragmentation.NewModel(p.demand, turnover)
	p.pressure = fragmentation.Pressure(p.demand, p.capacity)
	p.scarcity = fragmentation.Scarcity(p.demand, p.shapes)
	p.kept = fragmentation.Keep(p.demand, p.shapes, turnover)
	p.came, p.left = 0, 0
	return true
}

// Left implements Observer: what runs or waits is what is expected.
func (p *LeastFragmentation) Left(pod *openb.Pod) {
	if pod.GPUs > 0 {
		p.demand[cardClass(pod)]--
		p.present--
		p.left++
	}
}

// KeptFrom implements Keeper.
func (p *LeastFragmentation) KeptFrom(pod *openb.Pod) int64 {
	switch {
	case pod.GPUs == 0:
		return 0
	case pod.MilliGPU < fragmentation.Whole:
		return p.kept.From(0, p.perMille)
	}
	return p.kept.From(pod.GPUs, p.perMille)
}

// Covers implements Keeper.
func (p *LeastFragmentation) Covers(node *Node) bool {
	left := shapeOf(node.Node)
	left.MilliCPU, left.MemoryMiB = node.MilliCPU, node.MemoryMiB
	return p.kept.Covers(left)
}

func shapeOf(node *openb.Node) fragmentation.Shape {
	return fragmentation.Shape{Cards: node.GPUs, MilliCPU: node.MilliCPU, MemoryMiB: node.MemoryMiB, Type: node.Model}
}

func cardClass(pod *openb.Pod) fragmentation.Class {
	return fragmentation.Class{
		Cards: pod.GPUs, Share: pod.MilliGPU, MilliCPU: pod.MilliCPU, MemoryMiB: pod.MemoryMiB,
		Types: strings.Join(slices.Sorted(slices.Values(pod.Models)), ","),
	}
}

// Score implements Policy. The GPUs are those that our allocator takes: of shared ones the fullest.
func (p *LeastFragmentation) Score(node *Node, pod *openb.Pod) (int64, Cards) {
	cards := node.tightest(pod)
	left := fragmentation.Node{
		MilliCPU: node.MilliCPU, MemoryMiB: node.MemoryMiB, Cards: node.GPUs, Unused: node.WholeFree(),
		Pressure: p.pressure[node.Model], Scarcity: p.scarcity[shapeOf(node.Node)],
	}
	after := fragmentation.After{}
	for card, free := range node.Free {
		left.Free += p.model.Card(free)
		if cards&(1<<card) != 0 {
			free -= pod.MilliGPU
			after.Rest += free
		}
		after.Free += p.model.Card(free)
	}
	class := cardClass(pod)
	value := fragmentation.Value(p.model.Waste(&left, &class, after))
	return fragmentation.Rank(value, left.Unused < left.Cards), cards
}

// Pack is the strategy of that name of our plugin GPUScore: it prefers the node that the pod fills most.
type Pack struct{}

// Score implements Policy.
func (Pack) Score(node *Node, pod *openb.Pod) (int64, Cards) {
	cards := node.tightest(pod)
	capacity := node.GPUs * openb.MilliPerGPU
	if pod.GPUs == 0 || capacity == 0 {
		return 0, cards
	}
	const basisPoints = 10_000
	return basisPoints * (capacity - node.FreeGPU() + pod.TotalMilliGPU()) / capacity, cards
}

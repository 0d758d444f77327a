package placement

import (
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// LeastFragmentation is the strategy of that name of our plugin GPUScore, on the nodes and pods of a trace: the same
// forecast, which learns the demand from the pods that have come, the same value, and the same rule for equals.
type LeastFragmentation struct {
	forecast *fragmentation.Forecast
	nodes    fragmentation.Pool
	pods     fragmentation.PodCount
	pace     fragmentation.Pace
	// perMille of the nodes for the largest pods are kept whole.
	perMille int64
	// blind is whether the forecast is made without the idle nodes.
	blind bool
}

// cardMiB is the memory of all GPUs: shares are given in thousandths.
const cardMiB = trace.MilliPerGPU

// NewLeastFragmentation returns the policy for a cluster, that keeps so many whole in a thousand of the nodes for the
// largest pods. It has seen no pod yet.
func NewLeastFragmentation(nodes []trace.Node, perMille int64) *LeastFragmentation {
	p := &LeastFragmentation{perMille: perMille}
	for i := range nodes {
		shape := shapeOf(&nodes[i])
		p.nodes.Add(&fragmentation.Offer{Shape: shape, Cards: shape.Cards, Sizes: []int64{cardMiB}})
	}
	return p
}

// WithoutIdleNodes returns the policy with forecasts that do not know which nodes are idle, so that they need none: what that is worth shows in the
// difference.
func (p *LeastFragmentation) WithoutIdleNodes() *LeastFragmentation {
	p.blind = true
	return p
}

// Observe implements Observer. Like our plugin, it counts who comes from its first pod on.
func (p *LeastFragmentation) Observe(pod *trace.Pod, nodes []Node) bool {
	p.pods.Add(askOf(pod))
	if !p.pace.IsDue(p.pods.Len()) {
		return false
	}
	p.pods.EndRound()
	var idle fragmentation.IdleNodes
	if !p.blind {
		idle = idleNodes(nodes)
	}
	p.forecast = fragmentation.NewForecast("", &p.nodes, idle, &p.pods)
	return true
}

// Left implements Observer: what runs or waits is what is expected.
func (p *LeastFragmentation) Left(pod *trace.Pod) { p.pods.RemovePod(askOf(pod)) }

// KeptFrom implements Keeper.
func (p *LeastFragmentation) KeptFrom(pod *trace.Pod) int64 {
	asked := askOf(pod)
	if asked.NeedsNoGPUs() {
		return 0
	}
	return p.forecast.KeptNodes().CountFor(asked.Whole, p.perMille)
}

// Covers implements Keeper.
func (p *LeastFragmentation) Covers(node *Node) bool {
	return p.forecast.KeptNodes().CoversNode(leftOf(node))
}

// leftOf is what is left of an idle node.
func leftOf(node *Node) fragmentation.Shape {
	left := shapeOf(node.Node)
	left.MilliCPU, left.MemoryMiB = node.MilliCPU, node.MemoryMiB
	return left
}

// idleNodes counts the nodes that are idle.
func idleNodes(nodes []Node) fragmentation.IdleNodes {
	idle := fragmentation.IdleNodes{}
	for i := range nodes {
		if node := &nodes[i]; node.GPUs > 0 && node.WholeFree() == node.GPUs {
			idle[leftOf(node)]++
		}
	}
	return idle
}

func shapeOf(node *trace.Node) fragmentation.Shape {
	return fragmentation.Shape{Cards: node.GPUs, MilliCPU: node.MilliCPU, MemoryMiB: node.MemoryMiB, Type: node.Model}
}

// askOf is what a pod asks for, in the one pool that there is.
func askOf(pod *trace.Pod) fragmentation.PodRequest {
	asked := fragmentation.PodRequest{MilliCPU: pod.MilliCPU, MemoryMiB: pod.MemoryMiB}
	switch len(pod.Models) {
	case 0:
	case 1:
		asked.Types = pod.Models[0]
	default:
		asked.Types = strings.Join(slices.Sorted(slices.Values(pod.Models)), ",")
	}
	if pod.MilliGPU < trace.MilliPerGPU {
		asked.Shared, asked.ShareMiB = pod.GPUs, pod.MilliGPU
	} else {
		asked.Whole = pod.GPUs
	}
	return asked
}

// Score implements Policy. The GPUs are those that our allocator takes: of shared ones the fullest.
func (p *LeastFragmentation) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	cards, shape, asked := node.tightest(pod), shapeOf(node.Node), askOf(pod)
	on := p.forecast.PlaceOn(&shape, node.MilliCPU, node.MemoryMiB)
	for card, free := range node.Free[:min(node.GPUs, MaxGPUs)] {
		taken := int64(0)
		if cards&(1<<card) != 0 {
			taken = pod.MilliGPU
		}
		on.AddGPU(cardMiB, free, taken)
	}
	return fragmentation.NodeRank(on.NodeValue(&asked, cardMiB)), cards
}

// Pack is the strategy of that name of our plugin GPUScore: it prefers the node that the pod fills most.
type Pack struct{}

// Score implements Policy.
func (Pack) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	cards := node.tightest(pod)
	capacity := node.GPUs * trace.MilliPerGPU
	if pod.GPUs == 0 || capacity == 0 {
		return 0, cards
	}
	const basisPoints = 10_000
	return basisPoints * (capacity - node.FreeGPU() + pod.TotalMilliGPU()) / capacity, cards
}

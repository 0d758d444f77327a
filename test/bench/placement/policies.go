package placement

import (
	"math"
	"math/rand"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// The largest node that the published simulator scales by.
const (
	largestMilliCPU = 128_000
	largestMilliGPU = 8_000
	maxScore        = 100
)

// Random takes any node on which the pod fits, and any of its GPUs.
type Random struct{ Source *rand.Rand }

// Score implements Policy; Pick decides.
func (r Random) Score(node *Node, pod *trace.Pod) (int64, Cards) { return 0, r.cards(node, pod) }

// Pick implements Picker.
func (r Random) Pick(fitting []*Node, pod *trace.Pod) (int, Cards) {
	i := r.Source.Intn(len(fitting))
	return i, r.cards(fitting[i], pod)
}

func (r Random) cards(node *Node, pod *trace.Pod) Cards {
	var chosen Cards
	wanted := pod.GPUs
	for _, card := range r.Source.Perm(MaxGPUs) {
		if wanted > 0 && node.Free[card] >= pod.MilliGPU {
			chosen |= 1 << card
			wanted--
		}
	}
	return chosen
}

// DotProduct prefers the node whose free CPU and GPU point least in the direction of what the pod asks, after Tetris
// (Grandl et al., SIGCOMM'14).
type DotProduct struct{}

// Score implements Policy.
func (DotProduct) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	product := share(node.MilliCPU, largestMilliCPU)*share(pod.MilliCPU, largestMilliCPU) +
		share(node.FreeGPU(), largestMilliGPU)*share(pod.TotalMilliGPU(), largestMilliGPU)
	return int64(maxScore * (1 - product/2)), node.tightest(pod)
}

// BestFit prefers the node with the least CPU and GPU left once the pod is there.
type BestFit struct{}

// Score implements Policy.
func (BestFit) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	left := share(node.MilliCPU-pod.MilliCPU, largestMilliCPU)/2 +
		share(node.FreeGPU()-pod.TotalMilliGPU(), largestMilliGPU)/2
	return int64(maxScore * (1 - left)), node.tightest(pod)
}

// Clustering keeps pods that ask for as many GPUs together, after Gandiva (Xiao et al., OSDI'18).
type Clustering struct{}

// Score implements Policy.
func (Clustering) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	if pod.GPUs == 0 {
		return 0, 0
	}
	const quarter = maxScore / 4
	kinds := 0
	for _, pods := range node.Kinds {
		if pods > 0 {
			kinds++
		}
	}
	level := int64(0)
	switch alike := node.Kinds[kindOf(pod)] > 0; {
	case alike && kinds == 1:
		level = 3
	case alike:
		level = 2
	case kinds == 0:
		level = 1
	}
	return level*quarter + quarter*(largestMilliGPU-node.FreeGPU())/largestMilliGPU, node.tightest(pod)
}

// Packing prefers GPUs in use, then free ones of nodes in use, after MLaaS in the Wild (Weng et al., NSDI'22).
type Packing struct{}

// Score implements Policy.
func (Packing) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	cards := node.tightest(pod)
	if pod.GPUs == 0 {
		return 0, cards
	}
	if free := node.WholeFree(); free == node.GPUs {
		return max(maxScore/3-free, free), cards
	}
	opened, leftPercent := int64(0), int64(0)
	for card, free := range node.Free {
		switch {
		case cards&(1<<card) == 0:
		case free == trace.MilliPerGPU:
			opened++
		default:
			leftPercent += free * 100 / trace.MilliPerGPU
		}
	}
	if opened > 0 {
		return max(maxScore/2-opened, maxScore/3), cards
	}
	return max(maxScore-leftPercent/10, maxScore/2), cards
}

// FragmentationGradientDescent (FGD) prefers the node whose fragmentation for the pods of a workload grows least.
type FragmentationGradientDescent struct{ Workload Workload }

// Score implements Policy.
func (p FragmentationGradientDescent) Score(node *Node, pod *trace.Pod) (int64, Cards) {
	before := p.Workload.Fragmentation(node)
	value := func(cards Cards) float64 {
		after := node.With(pod, cards)
		return (before - p.Workload.Fragmentation(&after)) / trace.MilliPerGPU
	}
	if pod.GPUs != 1 || pod.MilliGPU == trace.MilliPerGPU {
		cards := node.tightest(pod)
		return sigmoid(value(cards)), cards
	}
	best, bestScore := Cards(0), int64(-1)
	for card, free := range node.Free {
		if free < pod.MilliGPU {
			continue
		}
		if score := sigmoid(value(1 << card)); score > bestScore {
			best, bestScore = 1<<card, score
		}
	}
	return bestScore, best
}

func sigmoid(x float64) int64 { return int64(maxScore / (1 + math.Exp(-x))) }

func share(part, whole int64) float64 { return float64(part) / float64(whole) }

package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Variant is a trace made from another one: the same pods in other proportions and in another order.
type Variant struct {
	Name  string
	Mix   Mix
	Order Order
}

// Mix is how often the pods of a trace occur in a variant of it. The zero value changes nothing.
type Mix struct {
	// Several and Shared are the shares of all requested GPUs that pods with several GPUs, and pods that share one, request. 0 keeps those pods.
	Several, Shared float64
	// EvenSizes makes the pods of each number of GPUs above 1 request equally many GPUs.
	EvenSizes bool
	// Named is the share of pods with GPUs that accept one GPU model only.
	Named float64
	// WithoutGPUs multiplies the pods that request no GPUs. 0 keeps them.
	WithoutGPUs float64
}

// Order is in which order pods arrive.
type Order int

// The orders. All begin with the shuffled pods of the published protocol.
const (
	// Shuffled changes nothing.
	Shuffled Order = iota
	// InBursts lets pods of a class arrive burst at a time.
	InBursts
	// SeveralEarly and SeveralLate let pods with several GPUs arrive more and more rarely, or more and more often.
	SeveralEarly
	SeveralLate
)

// burst is how many pods of a class arrive together.
const burst = 16

// Variants returns the variants of the worst-seed study. They are chosen by what they vary, not by their results.
func Variants() []Variant {
	several := func(share float64) Mix { return Mix{Several: share} }
	return []Variant{
		{"multi30", several(0.3), Shuffled},
		{"multi40", several(0.4), Shuffled},
		{"multi50", several(0.5), Shuffled},
		{"multi60", several(0.6), Shuffled},
		{"multi30-bursts", several(0.3), InBursts},
		{"multi40-bursts", several(0.4), InBursts},
		{"multi50-bursts", several(0.5), InBursts},
		{"multi60-bursts", several(0.6), InBursts},
		{"multi40-early", several(0.4), SeveralEarly},
		{"multi60-early", several(0.6), SeveralEarly},
		{"multi40-late", several(0.4), SeveralLate},
		{"multi60-late", several(0.6), SeveralLate},
		{"multi40-even", Mix{Several: 0.4, EvenSizes: true}, Shuffled},
		{"multi60-even", Mix{Several: 0.6, EvenSizes: true}, Shuffled},
		{"named33", Mix{Named: 0.33}, Shuffled},
		{"multi30-named20", Mix{Several: 0.3, Named: 0.2}, Shuffled},
		{"multi40-named33", Mix{Several: 0.4, Named: 0.33}, Shuffled},
		{"multi50-named20", Mix{Several: 0.5, Named: 0.2}, Shuffled},
		{"multi30-shared40", Mix{Several: 0.3, Shared: 0.4}, Shuffled},
		{"multi40-cpu250", Mix{Several: 0.4, WithoutGPUs: 2.5}, Shuffled},
	}
}

// mixSeed determines the pods of each variant. The seeds of a study only determine the arrivals.
const mixSeed = 1

// MakeTrace returns the pods of a variant. Pods that occur more often than in the original are drawn from it with replacement, and others are removed
// at random.
func (m *Mix) MakeTrace(nodes []trace.Node, original []trace.Pod) []trace.Pod {
	random := rand.New(rand.NewSource(mixSeed)) //nolint:gosec // it has to be the same each time
	var pods []trace.Pod
	for _, group := range m.groups(original) {
		pods = append(pods, resample(group.pods, group.goal, random)...)
	}
	for i := range pods {
		pods[i].Name = fmt.Sprintf("variant-pod-%06d", i)
		if pods[i].GPUs > 0 && random.Float64() < m.Named {
			pods[i].Models = randomModel(nodes, &pods[i], random)
		}
	}
	return pods
}

// group is pods that are resampled together, and how much they are to request, by demandOf.
type group struct {
	pods []trace.Pod
	goal float64
}

// demandOf is what a pod counts for: its GPUs, or 1 for a pod without.
func demandOf(pod *trace.Pod) float64 { return float64(max(pod.TotalMilliGPU(), 1)) }

func demandOfAll(pods []trace.Pod) float64 {
	sum := 0.0
	for i := range pods {
		sum += demandOf(&pods[i])
	}
	return sum
}

// groups divides the pods of a trace. The groups without a share of their own keep what they request.
func (m *Mix) groups(original []trace.Pod) []group {
	var bySize [MaxGPUs + 1][]trace.Pod // pods that share a GPU are apart
	var shared []trace.Pod
	for i := range original {
		if pod := &original[i]; kindOf(pod) == 0 && pod.GPUs > 0 {
			shared = append(shared, *pod)
		} else {
			bySize[pod.GPUs] = append(bySize[pod.GPUs], *pod)
		}
	}
	several := slices.Concat(bySize[2:]...)
	fixed, free := 0.0, demandOfAll(bySize[1])
	for _, part := range []struct {
		share float64
		pods  []trace.Pod
	}{{m.Several, several}, {m.Shared, shared}} {
		if fixed += part.share; part.share == 0 {
			free += demandOfAll(part.pods)
		}
	}
	goal := func(share float64, pods []trace.Pod) float64 {
		if share == 0 {
			return demandOfAll(pods)
		}
		return share * free / (1 - fixed)
	}
	groups := []group{
		{bySize[0], demandOfAll(bySize[0]) * cmp.Or(m.WithoutGPUs, 1)},
		{bySize[1], demandOfAll(bySize[1])},
		{shared, goal(m.Shared, shared)},
	}
	if !m.EvenSizes {
		return append(groups, group{several, goal(m.Several, several)})
	}
	sizes := slices.DeleteFunc(bySize[2:], func(pods []trace.Pod) bool { return len(pods) == 0 })
	for _, pods := range sizes {
		groups = append(groups, group{pods, goal(m.Several, several) / float64(len(sizes))})
	}
	return groups
}

// resample removes random pods, or adds random ones once more, until they request as much as the goal.
func resample(original []trace.Pod, goal float64, random *rand.Rand) []trace.Pod {
	pods, sum := slices.Clone(original), demandOfAll(original)
	for len(original) > 0 && sum < goal {
		pods = append(pods, original[random.Intn(len(original))])
		sum += demandOf(&pods[len(pods)-1])
	}
	for len(pods) > 0 && sum > goal {
		i := random.Intn(len(pods))
		sum -= demandOf(&pods[i])
		pods = slices.Delete(pods, i, i+1)
	}
	return pods
}

// randomModel returns the GPU model of a random node that could hold a pod, so that no pod names what no node has.
func randomModel(nodes []trace.Node, pod *trace.Pod, random *rand.Rand) []string {
	var models []string
	for i := range nodes {
		if node := &nodes[i]; node.GPUs >= pod.GPUs && node.MilliCPU >= pod.MilliCPU && node.MemoryMiB >= pod.MemoryMiB {
			models = append(models, node.Model)
		}
	}
	if len(models) == 0 {
		return nil
	}
	return []string{models[random.Intn(len(models))]}
}

// DrawArrivals returns the arrivals of a seed, for the pods of MakeTrace: those of the published protocol, in the order of the variant.
func (v *Variant) DrawArrivals(nodes []trace.Node, pods []trace.Pod, seed int64) trace.Arrivals {
	arrivals := trace.DrawArrivals(nodes, pods, trace.Inflation, seed)
	v.Order.arrange(arrivals.Pods)
	return arrivals
}

// arrange reorders shuffled pods.
func (o Order) arrange(pods []trace.Pod) {
	switch o {
	case InBursts:
		arrangeBursts(pods)
	case SeveralEarly:
		moveSeveral(pods, func(at float64) float64 { return 1 - math.Sqrt(1-at) })
	case SeveralLate:
		moveSeveral(pods, math.Sqrt)
	}
}

// arrangeBursts moves pods of a class up to the first of them, as many as make a burst.
func arrangeBursts(pods []trace.Pod) {
	type place struct{ burst, at int }
	places, begun, size := make([]place, len(pods)), map[class]int{}, map[class]int{}
	for i := range pods {
		of := classOf(&pods[i])
		if size[of]%burst == 0 {
			begun[of] = i
		}
		size[of]++
		places[i] = place{begun[of], i}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.burst, b.burst), cmp.Compare(a.at, b.at)) })
	shuffled := slices.Clone(pods)
	for i, from := range places {
		pods[i] = shuffled[from.at]
	}
}

// moveSeveral moves the pods with several GPUs: to is the new place of one, as a share of all pods, by its old one.
func moveSeveral(pods []trace.Pod, to func(float64) float64) {
	type place struct {
		at  float64
		pod trace.Pod
	}
	places := make([]place, len(pods))
	for i := range pods {
		at := (float64(i) + 0.5) / float64(len(pods))
		if pods[i].GPUs > 1 {
			at = to(at)
		}
		places[i] = place{at, pods[i]}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	for i := range places {
		pods[i] = places[i].pod
	}
}

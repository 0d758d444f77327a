package placement_test

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// TestTheWorstSeeds replays the five worst seeds that were found when forecasts did not know which nodes are idle. Each
// has to stay within most, and without that knowledge has to be as bad as it was, or it proves nothing. The one where pods
// name models is hardly better: its 8-GPU pods are refused for another reason (docs/benchmarks/worst-seeds.md).
func TestTheWorstSeeds(t *testing.T) {
	nodes, original := defaultTrace(t)
	variants := map[string]placement.Variant{}
	for _, variant := range placement.Variants() {
		variants[variant.Name] = variant
	}
	for _, tc := range []struct {
		variant    string
		seed       int64
		most, were float64 // unallocated GPUs in percent, at 100 % arrived
	}{
		{"multi40-late", 16, 3.7, 7.5},
		{"multi40-named33", 15, 6.7, 6.8},
		{"multi50", 13, 2.5, 6},
		{"multi60-bursts", 1, 4, 5.5},
		{"multi60", 14, 3, 5},
	} {
		t.Run(tc.variant, func(t *testing.T) {
			variant := variants[tc.variant]
			arrivals := variant.DrawArrivals(nodes, variant.Mix.MakeTrace(nodes, original), tc.seed)
			unallocated := func(policy placement.Policy) float64 {
				series := placement.Fill(arrivals, policy)
				return 100 - series[100]
			}
			got := unallocated(placement.NewLeastFragmentation(arrivals.Nodes, 0))
			without := unallocated(placement.NewLeastFragmentation(arrivals.Nodes, 0).WithoutIdleNodes())
			t.Logf("%.2f %% unallocated, %.2f without knowledge of idle nodes", got, without)
			if got > tc.most || without < tc.were {
				t.Errorf("%.2f %% unallocated, want at most %.2f; %.2f without knowledge of idle nodes, want at least %.2f", got, tc.most, without, tc.were)
			}
		})
	}
}

// TestVariantsHaveTheSharesOfTheirNames holds what the mixes promise, and that an order only changes when pods arrive.
func TestVariantsHaveTheSharesOfTheirNames(t *testing.T) {
	nodes, original := defaultTrace(t)
	for _, variant := range placement.Variants() {
		var all, several, shared, named, withGPUs, without float64
		pods := variant.Mix.MakeTrace(nodes, original)
		for i := range pods {
			pod := &pods[i]
			milli := float64(pod.TotalMilliGPU())
			all += milli
			switch {
			case pod.GPUs == 0:
				without++
				continue
			case pod.GPUs > 1:
				several += milli
			case pod.MilliGPU < trace.MilliPerGPU:
				shared += milli
			}
			withGPUs++
			named += float64(min(len(pod.Models), 1))
		}
		mix := variant.Mix
		near := func(what string, got, want float64) {
			if want > 0 && (got < want-0.02 || got > want+0.02) {
				t.Errorf("%s: %s is %.3f, want %.2f", variant.Name, what, got, want)
			}
		}
		near("the share of several GPUs", several/all, mix.Several)
		near("the share of shared GPUs", shared/all, mix.Shared)
		near("the share that names a model", named/withGPUs, mix.Named)
		near("the number without GPUs, in default ones", without/1088, mix.WithoutGPUs)
	}
}

func TestOrdersOnlyMovePods(t *testing.T) {
	nodes, original := defaultTrace(t)
	pods := (&placement.Mix{Several: 0.4}).MakeTrace(nodes, original)
	count := func(pods []trace.Pod) map[string]int {
		names := map[string]int{}
		for i := range pods {
			names[pods[i].Name]++
		}
		return names
	}
	severalFirst := func(order placement.Order) (share float64) {
		variant := placement.Variant{Order: order}
		arrived := variant.DrawArrivals(nodes, pods, 1).Pods
		if want := count((&placement.Variant{}).DrawArrivals(nodes, pods, 1).Pods); len(want) != len(count(arrived)) {
			t.Errorf("order %d: %d different pods arrive, want %d", order, len(count(arrived)), len(want))
		}
		first, all := 0.0, 0.0
		for i := range arrived {
			if arrived[i].GPUs > 1 {
				if all++; i < len(arrived)/2 {
					first++
				}
			}
		}
		return first / all
	}
	shuffled, early, late := severalFirst(placement.Shuffled), severalFirst(placement.SeveralEarly), severalFirst(placement.SeveralLate)
	if early < 0.65 || late > 0.35 || shuffled < 0.45 || shuffled > 0.55 {
		t.Errorf("of the pods with several GPUs %.2f arrive in the first half, %.2f early and %.2f late; want about 0.5, 0.75 and 0.25", shuffled, early, late)
	}
}

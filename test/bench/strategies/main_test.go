package main

import (
	"testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// TestLeastFragmentationKeepsNodesForLargeJobs is the benchmark on every twelfth node.
func TestLeastFragmentationKeepsNodesForLargeJobs(t *testing.T) {
	nodes, err := trace.LoadNodes("../../../" + kept + "/" + nodeList)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := trace.LoadPods("../../../" + kept + "/" + podList)
	if err != nil {
		t.Fatal(err)
	}
	some := nodes[:0:0]
	for i := 0; i < len(nodes); i += 12 {
		some = append(some, nodes[i])
	}
	refused := map[configv1.Strategy]int{}
	for seed := int64(firstSeed); seed < firstSeed+3; seed++ {
		arrivals := trace.DrawArrivals(some, wholeGPUs(pods), 1.06, seed)
		for _, strategy := range strategies {
			got, err := place(t.Context(), arrivals, strategy)
			if err != nil {
				t.Fatal(err)
			}
			for _, tally := range got {
				refused[strategy] += tally.refused
			}
		}
	}
	ours, pack, band := refused[configv1.LeastFragmentation], refused[configv1.Pack], refused[configv1.TargetBandStrategy]
	t.Logf("refused: %v", refused)
	if ours > pack || pack >= band {
		t.Errorf("of jobs of 8 GPUs, LeastFragmentation refuses %d, Pack %d and TargetBand %d, want them in this order", ours, pack, band)
	}
}

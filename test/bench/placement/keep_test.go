package placement_test

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// TestNothingThatFitsIsRefusedWhileAClusterFills lets pods come that never leave, with as many nodes kept whole as can be.
func TestNothingThatFitsIsRefusedWhileAClusterFills(t *testing.T) {
	nodes, pods := defaultTrace(t)
	arrivals := trace.DrawArrivals(nodes, pods, trace.Inflation, 42)
	cluster := placement.NewCluster(arrivals.Nodes, placement.NewLeastFragmentation(arrivals.Nodes, 100))
	lost := 0
	for i := range arrivals.Pods {
		pod := &arrivals.Pods[i]
		if at, _ := cluster.Place(pod); at >= 0 {
			continue
		}
		if lost++; cluster.Fits(pod) {
			t.Fatalf("pod %d, %+v, is refused, and fits", i, *pod)
		}
	}
	if lost == 0 {
		t.Error("no pod was lost, so that this proves nothing")
	}
}

// TestKeptNodes lets pods of one GPU and of eight come and go, without and with nodes that are kept whole.
func TestKeptNodes(t *testing.T) {
	nodes, pods := onesAndEights()
	churn := placement.Churn{Load: 0.95, WarmUp: 5, Measured: 100, Seed: 1}
	run := func(pods []trace.Pod, perMille int64) placement.ChurnResult {
		return churn.Run(nodes, pods, placement.NewLeastFragmentation(nodes, perMille))
	}
	without := run(pods, 0)
	if without.Refused != 0 {
		t.Errorf("%.2f %% of the pods are refused, though none is to be kept", without.Refused)
	}
	if few := run(pods, 49); few != without {
		t.Errorf("with less than one node to be kept %+v, want what there is without, %+v", few, without)
	}
	with := run(pods, 100)
	if with.Refused == 0 || with.Accepted < without.Accepted+5 {
		t.Errorf("two nodes kept: %+v, want pods refused, and more of eight GPUs accepted than %.1f %%", with, without.Accepted)
	}
	if small := run(pods[1:], 100); small.Refused != 0 {
		t.Errorf("%.2f %% of the pods are refused, and there are none that would take a whole node", small.Refused)
	}
}

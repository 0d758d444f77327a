package placement_test

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// onesAndEights returns nodes of eight GPUs, and pods of which one in 41 asks for all of a node and the others for one GPU.
func onesAndEights() (nodes []trace.Node, pods []trace.Pod) {
	for range 20 {
		nodes = append(nodes, trace.Node{Name: "n", GPUs: 8, MilliCPU: 64_000})
	}
	pods = []trace.Pod{{Name: "eight", GPUs: 8, MilliGPU: 1000, MilliCPU: 32_000}}
	for range 40 {
		pods = append(pods, trace.Pod{Name: "one", GPUs: 1, MilliGPU: 1000, MilliCPU: 2000})
	}
	return nodes, pods
}

// TestMovesMakeRoom lets pods of one GPU and of eight come and go with and without moves, and with too few of them.
func TestMovesMakeRoom(t *testing.T) {
	nodes, pods := onesAndEights()
	churn := placement.Churn{Load: 0.9, WarmUp: 3, Measured: 100, Seed: 1}
	run := func(moves *placement.Moves) placement.ChurnResult {
		churn.Moves = moves
		return churn.Run(nodes, pods, placement.Packing{})
	}
	without := run(nil)
	if without.Moved != (placement.Moved{}) {
		t.Errorf("moves were made that nobody allowed: %+v", without.Moved)
	}
	with := run(&placement.Moves{PerPod: 8, Share: 1, Period: 1})
	if with.Accepted < without.Accepted+20 || with.Moved.Pods == 0 {
		t.Errorf("%.1f %% accepted without moves and %.1f %% with %+v, want many more", without.Accepted, with.Accepted, with.Moved)
	}
	if m := with.Moved; m.GPUs != 8*int64(m.Pods) || m.Milli != 1000*int64(m.Moves) || m.Moves < m.Pods || m.Moves > 8*m.Pods {
		t.Errorf("moved were %+v, want pods of one GPU for pods of 8", m)
	}
	bounded := run(&placement.Moves{PerPod: 8, Share: 0.01, Period: 1})
	if bounded.Moved.Moves == 0 || bounded.Moved.Share > 0.012 || bounded.Accepted > with.Accepted {
		t.Errorf("with moves of a hundredth of the pods in a lifetime %+v, want no more and fewer accepted than %.1f %%", bounded, with.Accepted)
	}
	if again := run(&placement.Moves{PerPod: 8, Share: 0.01, Period: 1}); again != bounded {
		t.Errorf("the same seed gives %+v and %+v", bounded, again)
	}
}

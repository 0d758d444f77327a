package placement_test

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

func TestChurn(t *testing.T) {
	nodes := make([]trace.Node, 20)
	for i := range nodes {
		nodes[i] = trace.Node{Name: "n", GPUs: 8}
	}
	pods := []trace.Pod{{Name: "one", GPUs: 1, MilliGPU: 1000}, {Name: "eight", GPUs: 8, MilliGPU: 1000}}
	churn := placement.Churn{Load: 0.5, WarmUp: 3, Measured: 20, Seed: 1}
	light := churn.Run(nodes, pods, placement.BestFit{})
	if light.Allocated < 40 || light.Allocated > 60 || light.Accepted < 80 {
		t.Errorf("at half the load %+v, want about half of the GPUs allocated and few pods lost", light)
	}
	if again := churn.Run(nodes, pods, placement.BestFit{}); again != light {
		t.Errorf("the same seed gives %+v and %+v", light, again)
	}
	churn.Load = 3
	if heavy := churn.Run(nodes, pods, placement.BestFit{}); heavy.Allocated < 90 || heavy.Accepted > light.Accepted {
		t.Errorf("at three times the capacity %+v, want nearly all GPUs allocated and pods lost", heavy)
	}
}

package fragmentation_test

import (
	"math"
	"testing"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// TestNeeds has 60 nodes of eight GPUs, a third of which is known to be requested: as many pods again, and as many once more, are to come.
func TestNeeds(t *testing.T) {
	plain := fragmentation.Shape{Cards: 8, MilliCPU: 96, MemoryMiB: 384, Type: "A10"}
	rich := fragmentation.Shape{Cards: 8, MilliCPU: 128, MemoryMiB: 768, Type: "A10"}
	starved := fragmentation.Shape{Cards: 8, MilliCPU: 8, MemoryMiB: 384, Type: "A10"}
	larger := fragmentation.Shape{Cards: 16, MilliCPU: 192, MemoryMiB: 768, Type: "A10"}
	eight := func(cpu int64) fragmentation.Class {
		return fragmentation.Class{Cards: 8, Share: 1000, MilliCPU: cpu, MemoryMiB: 1}
	}
	ones := fragmentation.Class{Cards: 1, Share: 1000, MilliCPU: 1, MemoryMiB: 1}
	capacity := map[string]int64{"A10": 480}
	tests := map[string]struct {
		demand fragmentation.Demand
		idle   fragmentation.IdleNodes
		want   map[int64]float64 // by the CPU that they need
	}{
		"twice as many are to come as came, and far more nodes are idle": {
			fragmentation.Demand{eight(88): 5, ones: 120}, fragmentation.IdleNodes{plain: 40}, map[int64]float64{88: 0},
		},
		"fewer nodes are idle than pods are to come": {
			fragmentation.Demand{eight(88): 5, ones: 120}, fragmentation.IdleNodes{plain: 3}, map[int64]float64{88: 0.93},
		},
		"the few nodes that some of them need, and the many that all can use": {
			fragmentation.Demand{eight(120): 2, eight(88): 8, ones: 80}, fragmentation.IdleNodes{plain: 56, rich: 4}, map[int64]float64{120: 0.65, 88: 0},
		},
		"those that need more compete for what the others could use": {
			fragmentation.Demand{eight(120): 2, eight(88): 8, ones: 80}, fragmentation.IdleNodes{plain: 8, rich: 12}, map[int64]float64{120: 0.05, 88: 0.57},
		},
		"a node whose CPU is in use, or that they only take a part of, is of no use": {
			fragmentation.Demand{eight(88): 5, ones: 120}, fragmentation.IdleNodes{starved: 9, larger: 9}, map[int64]float64{},
		},
		"a full pool has no more to come": {
			fragmentation.Demand{eight(88): 5, ones: 440}, fragmentation.IdleNodes{plain: 1}, map[int64]float64{88: 0},
		},
		"nobody knows of large pods": {fragmentation.Demand{ones: 160}, fragmentation.IdleNodes{plain: 3}, map[int64]float64{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := fragmentation.ComputeNeeds(tc.demand, tc.idle, capacity)["A10"]
			if len(got) != len(tc.want) {
				t.Fatalf("needs %+v, want %v", got, tc.want)
			}
			for i, need := range got {
				if want := tc.want[need.MilliCPU]; math.Abs(need.Probability-want) > 0.05 {
					t.Errorf("an idle node with %d of CPU is needed with probability %.3f, want %.2f", need.MilliCPU, need.Probability, want)
				}
				if i > 0 && need.Probability > got[i-1].Probability {
					t.Errorf("%+v: the greatest need is not the first", got)
				}
			}
		})
	}
}

// TestWhatIsNeededCosts has a pod at a node of eight GPUs that is needed with a probability of one half, if it has 64 of CPU left.
func TestWhatIsNeededCosts(t *testing.T) {
	demand := fragmentation.Demand{{Cards: 8, Share: 1000, MilliCPU: 64, MemoryMiB: 1}: 1, {Cards: 1, Share: 1000, MilliCPU: 1, MemoryMiB: 1}: 1}
	needs := []fragmentation.Need{{MilliCPU: 64, MemoryMiB: 1, Probability: 0.5}}
	one, cpu := fragmentation.Class{Cards: 1, Share: 1000, MilliCPU: 1, MemoryMiB: 1}, fragmentation.Class{MilliCPU: 50}
	tests := map[string]struct {
		class    fragmentation.Class
		milliCPU int64
		unused   int64
		turnover float64
		want     float64
	}{
		"half of all its GPUs":                        {one, 96, 8, 0, 4000},
		"nothing once it is broken into":              {one, 96, 7, 0, 0},
		"nothing where it has no CPU for large pods":  {one, 63, 8, 0, 0},
		"nothing for a large pod itself":              {fragmentation.Class{Cards: 8, Share: 1000, MilliCPU: 64}, 96, 8, 0, 0},
		"as much for a pod without GPUs that starves": {cpu, 96, 8, 0, 4000},
		"nothing for one that leaves enough":          {cpu, 128, 8, 0, 0},
		"less where pods begin to leave":              {one, 96, 8, 1. / 6, 2000},
		"nothing where they do":                       {one, 96, 8, 1. / 3, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			model := fragmentation.NewModel(demand, tc.turnover)
			node := fragmentation.Node{Free: 8000, MilliCPU: tc.milliCPU, MemoryMiB: 100, Cards: 8, Unused: tc.unused}
			after := fragmentation.After{Free: 8000 - float64(tc.class.Cards)*1000}
			without := model.PodWaste(&node, &tc.class, after)
			node.Needs = needs
			if got := model.PodWaste(&node, &tc.class, after) - without; math.Abs(got-tc.want) > 1 {
				t.Errorf("it costs %.0f more, want %.0f", got, tc.want)
			}
		})
	}
}

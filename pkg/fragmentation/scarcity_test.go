package fragmentation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

func TestScarcity(t *testing.T) {
	small := fragmentation.Shape{Cards: 4, MilliCPU: 99, MemoryMiB: 99, Type: "T4"}
	plain := fragmentation.Shape{Cards: 8, MilliCPU: 96, MemoryMiB: 384, Type: "A10"}
	rich := fragmentation.Shape{Cards: 8, MilliCPU: 128, MemoryMiB: 768, Type: "A10"}
	poor := fragmentation.Shape{Cards: 8, MilliCPU: 8, MemoryMiB: 384, Type: "V100"}
	nodes := map[fragmentation.Shape]int64{small: 20, plain: 6, rich: 2, poor: 2}
	eight := func(cpu, memory int64, types string) fragmentation.Class {
		return fragmentation.Class{Cards: 8, Share: 1000, MilliCPU: cpu, MemoryMiB: memory, Types: types}
	}
	ones := fragmentation.Class{Cards: 1, Share: 1000, MilliCPU: 1, MemoryMiB: 1}
	tests := map[string]struct {
		demand fragmentation.Demand
		want   map[fragmentation.Shape]float64
	}{
		"all large pods run on each node with the cards": {
			fragmentation.Demand{eight(8, 8, ""): 3, ones: 99}, map[fragmentation.Shape]float64{plain: 1, rich: 1, poor: 1},
		},
		"a quarter of them only on two of ten nodes, the others on eight": {
			fragmentation.Demand{eight(120, 700, ""): 1, eight(88, 300, ""): 3}, map[fragmentation.Shape]float64{plain: 0.9375, rich: 0.9375 + 1.25},
		},
		"a type that they insist on": {
			fragmentation.Demand{eight(8, 8, "T4,V100"): 1}, map[fragmentation.Shape]float64{poor: 5},
		},
		"they fit nowhere": {fragmentation.Demand{eight(999, 8, ""): 1}, map[fragmentation.Shape]float64{}},
		"without pods of several cards nothing is known": {
			fragmentation.Demand{ones: 5}, map[fragmentation.Shape]float64{small: 1, plain: 1, rich: 1, poor: 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fragmentation.ComputeScarcity(tc.demand, nodes)); diff != "" {
				t.Errorf("scarcity (-want +got):\n%s", diff)
			}
		})
	}
}

package fragmentation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

func TestKeep(t *testing.T) {
	const most = 1 << 20
	small := fragmentation.Shape{Cards: 4, MilliCPU: 99, MemoryMiB: 99, Type: "T4"}
	plain := fragmentation.Shape{Cards: 8, MilliCPU: 96, MemoryMiB: 384, Type: "A10"}
	poor := fragmentation.Shape{Cards: 8, MilliCPU: 8, MemoryMiB: 384, Type: "V100"}
	huge := fragmentation.Shape{Cards: 16, MilliCPU: 192, MemoryMiB: 768, Type: "A10"}
	nodes := map[fragmentation.Shape]int64{small: 4000, plain: 600, poor: 150, huge: 8000}
	whole := func(cards, cpu int64, types string) fragmentation.Class {
		return fragmentation.Class{Cards: cards, Share: fragmentation.Whole, MilliCPU: cpu, Types: types}
	}
	halves := fragmentation.Class{Cards: 8, Share: 500}
	type kept struct {
		nodes  int64
		shapes []fragmentation.Shape
	}
	tests := map[string]struct {
		demand   fragmentation.Demand
		turnover float64
		perMille int64
		want     kept
	}{
		"so many in a thousand of the nodes that the largest pods take as a whole, rounded down": {
			fragmentation.Demand{whole(8, 8, ""): 50, whole(1, 1, ""): most}, 0.9, 5, kept{3, []fragmentation.Shape{plain, poor}},
		},
		"nodes without the CPU for any of them do not count": {
			fragmentation.Demand{whole(8, 90, ""): 50, whole(8, 96, ""): 1}, 0.9, 5, kept{3, []fragmentation.Shape{plain}},
		},
		"nodes of another type than they insist on do not count": {
			fragmentation.Demand{whole(8, 8, "V100"): 50}, 0.9, 10, kept{1, []fragmentation.Shape{poor}},
		},
		"what one class could run on is kept for all":      {fragmentation.Demand{whole(8, 8, "V100"): 1, whole(8, 90, ""): 49}, 0.9, 4, kept{3, []fragmentation.Shape{plain, poor}}},
		"never more than there are pods of that size":      {fragmentation.Demand{whole(8, 8, ""): 2}, 0.9, 100, kept{2, []fragmentation.Shape{plain, poor}}},
		"the share that counts is a third of the pods":     {fragmentation.Demand{whole(8, 8, ""): 50}, 1. / 3, 4, kept{3, []fragmentation.Shape{plain, poor}}},
		"a pool that fills keeps none":                     {fragmentation.Demand{whole(8, 8, ""): 50}, 0.33, 4, kept{}},
		"turned off":                                       {fragmentation.Demand{whole(8, 8, ""): 50}, 0.9, 0, kept{0, []fragmentation.Shape{plain, poor}}},
		"too few nodes for one in so many":                 {fragmentation.Demand{whole(8, 8, "V100"): 50}, 0.9, 6, kept{0, []fragmentation.Shape{poor}}},
		"without pods of several cards, none":              {fragmentation.Demand{whole(1, 1, ""): 50}, 0.9, 4, kept{}},
		"the largest pods leave a part of each node":       {fragmentation.Demand{whole(6, 8, ""): 50}, 0.9, 4, kept{}},
		"shares of all cards are no reason":                {fragmentation.Demand{halves: 50, whole(4, 1, ""): 50}, 0.9, 4, kept{}},
		"whole nodes among shares of as many cards are it": {fragmentation.Demand{halves: 50, whole(8, 1, "A10"): 50}, 0.9, 4, kept{2, []fragmentation.Shape{plain}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rule := fragmentation.NodesToKeep(tc.demand, nodes, tc.turnover)
			got := kept{nodes: rule.CountFor(1, tc.perMille)}
			for _, shape := range []fragmentation.Shape{small, plain, poor, huge} {
				if rule.CoversNode(shape) {
					got.shapes = append(got.shapes, shape)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kept{})); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromWhomNodesAreKept(t *testing.T) {
	node := fragmentation.Shape{Cards: 8, MilliCPU: 96, MemoryMiB: 384}
	demand := fragmentation.Demand{{Cards: 8, Share: fragmentation.Whole, MilliCPU: 64}: 50}
	rule := fragmentation.NodesToKeep(demand, map[fragmentation.Shape]int64{node: 1000}, 1)
	for name, tc := range map[string]struct{ cards, want int64 }{
		"a pod that shares cards":                  {0, 2},
		"a pod of one card":                        {1, 2},
		"a pod of all cards but one":               {7, 2},
		"not a pod that takes the node as a whole": {8, 0},
		"not a pod that no node has the cards for": {16, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rule.CountFor(tc.cards, 2); got != tc.want {
				t.Errorf("%d nodes are kept from it, want %d", got, tc.want)
			}
		})
	}
}

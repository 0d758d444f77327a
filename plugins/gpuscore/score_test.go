package gpuscore

import (
	"math"
	"testing"
)

func TestShareAfter(t *testing.T) {
	tests := map[string]struct{ used, asked, capacity, want int64 }{
		"an empty node half filled":                        {0, 4, 8, 5_000},
		"the pod's own GPUs count":                         {2, 1, 8, 3_750},
		"a node filled up":                                 {7, 1, 8, 10_000},
		"thirds are rounded down":                          {0, 1, 3, 3_333},
		"one GPU of sixteen still shows":                   {0, 1, 16, 625},
		"a node without GPUs is full":                      {0, 1, 0, 10_000},
		"more used than there are, after a card broke":     {8, 1, 4, 10_000},
		"a sum of another scheduler that wrapped counts 0": {-2, 4, 8, 5_000},
		"numbers at the limit do not overflow":             {math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64, 10_000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := shareAfter(tc.used, tc.asked, tc.capacity); got != tc.want {
				t.Errorf("shareAfter(%d, %d, %d) = %d, want %d", tc.used, tc.asked, tc.capacity, got, tc.want)
			}
		})
	}
}

func TestTypeFormulas(t *testing.T) {
	list := []string{"A", "B", "C"}
	near := map[string][]string{"A": {"N"}, "B": {"M", "A"}}
	tests := map[string]struct{ got, want int64 }{
		"the first accepted type":                    {typeByRank(list, "A"), 100},
		"the second of three":                        {typeByRank(list, "B"), 67},
		"the last of three":                          {typeByRank(list, "C"), 34},
		"a type that is not accepted":                {typeByRank(list, "D"), 0},
		"the only accepted type":                     {typeByRank(list[:1], "A"), 100},
		"the only wish":                              {typeByWish(list[:1], near, "A"), 100},
		"the first wish":                             {typeByWish(list, near, "A"), 100},
		"the last wish is above any compatible type": {typeByWish(list, near, "C"), 80},
		"a type compatible with the first wish":      {typeByWish(list, near, "N"), 70},
		"a type compatible with the second wish":     {typeByWish(list, near, "M"), 70},
		"compatible is not turned round":             {typeByWish([]string{"N"}, near, "A"), 0},
		"a type far from every wish":                 {typeByWish(list, near, "Z"), 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %d, want %d", tc.got, tc.want)
			}
		})
	}
}

func TestByInterconnect(t *testing.T) {
	tests := map[string]struct {
		gpus         int64
		interconnect string
		want         int64
	}{
		"several GPUs like NVLink":        {4, "nvlink", 100},
		"several GPUs can do with PCIe":   {4, "pcie", 50},
		"several GPUs, nothing known":     {4, "", 50},
		"one GPU leaves NVLink to others": {1, "nvlink", 50},
		"one GPU takes PCIe":              {1, "pcie", 100},
		"one GPU, nothing known":          {1, "", 100},
		"a shared GPU leaves NVLink too":  {0, "nvlink", 50},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := byInterconnect(tc.gpus, tc.interconnect); got != tc.want {
				t.Errorf("byInterconnect(%d, %q) = %d, want %d", tc.gpus, tc.interconnect, got, tc.want)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	best := parts{utilization: 100, typeMatch: 100, topology: 100}
	tests := map[string]struct {
		weights weights
		parts   parts
		want    int64
	}{
		"the best node has 100, not 150 as once":      {weights{40, 30, 30}, best, 100},
		"weights that do not sum to 100 are scaled":   {weights{100, 100, 100}, best, 100},
		"each part counts by its weight":              {weights{40, 30, 30}, parts{utilization: 75, typeMatch: 100, topology: 50}, 75},
		"a weight of 0 drops its part":                {weights{1, 0, 0}, parts{utilization: 37, typeMatch: 100, topology: 100}, 37},
		"a node that suits in nothing has no points":  {weights{40, 30, 30}, parts{}, 0},
		"the largest weights stay in range":           {weights{100, 0, 100}, parts{utilization: 100, typeMatch: 0, topology: 100}, 100},
		"fractions of a point are dropped for safety": {weights{40, 30, 30}, parts{utilization: 1, typeMatch: 1, topology: 0}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.weights.weightedMean(tc.parts); got != tc.want {
				t.Errorf("%+v.total(%+v) = %d, want %d", tc.weights, tc.parts, got, tc.want)
			}
		})
	}
}

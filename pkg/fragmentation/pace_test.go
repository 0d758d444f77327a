package fragmentation_test

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

func TestPace(t *testing.T) {
	var pace fragmentation.Pace
	due := 0
	for known := range int64(10_000) {
		if pace.IsDue(known) {
			due++
		}
	}
	if due < 60 || due > 120 {
		t.Errorf("a model is due %d times in 10,000 pods", due)
	}
}

// TestPaceIsOfNumbersAlone asks two at other numbers, one of which joins late.
func TestPaceIsOfNumbersAlone(t *testing.T) {
	for _, known := range []int64{0, 1000, 3000, 100_000} {
		for join := int64(1); join < 6000; join += 37 {
			var all, late fragmentation.Pace
			for number := int64(1); number < 7000; number++ {
				due := all.IsDueAt(number, known)
				if number >= join && late.IsDueAt(number, known) != due && number > join {
					t.Fatalf("%d pods: at pod %d a model is due for one and not for the other, which joined at %d", known, number, join)
				}
			}
		}
	}
}

func TestPaceWaitsForASixteenthOfThePodsThatAreKnown(t *testing.T) {
	for known, want := range map[int64]int{0: 63, 1000: 51, 2000: 39, 5000: 16, 20_000: 16, 100_000: 4, 1_000_000: 1} {
		var pace fragmentation.Pace
		due := 0
		for number := range int64(4096) {
			if pace.IsDueAt(number+1, known) {
				due++
			}
		}
		if due != want {
			t.Errorf("where %d pods are known, a model is due at %d of 4,096, want %d", known, due, want)
		}
	}
}

func TestTurnover(t *testing.T) {
	tests := map[string]struct {
		flows [][2]int64 // came and left, a model each
		want  float64
	}{
		"pods only come":     {[][2]int64{{16, 0}, {16, 0}}, 0},
		"half as many leave": {[][2]int64{{16, 0}, {16, 16}}, 0.5},
		"more leave than come, which is no more than all": {[][2]int64{{16, 16}, {0, 100}}, 1},
		"nothing happened":               {[][2]int64{{0, 0}}, 0},
		"what was long ago is forgotten": {[][2]int64{{999, 0}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var turnover fragmentation.Turnover
			got := 0.0
			for _, flow := range tc.flows {
				got = turnover.NextRate(flow[0], flow[1])
			}
			if got != tc.want {
				t.Errorf("%v leave for each that comes, want %v", got, tc.want)
			}
		})
	}
	var quiet fragmentation.Turnover
	if quiet.NextRate(0, 0); !quiet.IsIdle() {
		t.Error("nothing came or left, and yet it is not idle")
	}
	if quiet.NextRate(0, 1); quiet.IsIdle() {
		t.Error("a pod left, and yet it is idle")
	}
}

package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetString(t *testing.T) {
	cases := map[string]struct {
		set  Set
		want string
	}{
		"the empty set has a word":          {0, "none"},
		"one card is no range":              {singleGPU(3), "3"},
		"neighbours make a range":           {firstPositions(4) | singleGPU(6), "0-3,6"},
		"the last bit is a card too":        {singleGPU(62) | singleGPU(63), "62-63"},
		"all bits are one range":            {^Set(0), "0-63"},
		"a range may end at a gap of one":   {firstPositions(8) &^ singleGPU(4), "0-3,5-7"},
		"single cards do not join together": {0b10101, "0,2,4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.set.String()); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetPositions(t *testing.T) {
	set := singleGPU(0) | singleGPU(5) | singleGPU(63)
	if diff := cmp.Diff([]int{0, 5, 63}, set.Positions()); diff != "" {
		t.Errorf("Positions (-want +got):\n%s", diff)
	}
	if set.Len() != 3 || set.First() != 0 || !set.Has(63) || set.Has(62) {
		t.Errorf("%v: Len %d, First %d", set, set.Len(), set.First())
	}
	if Set(0).First() != MaxGPUs {
		t.Errorf("First of the empty set is %d, want %d", Set(0).First(), MaxGPUs)
	}
}

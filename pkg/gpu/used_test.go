package gpu

import "testing"

func TestUsedSurvivesPodsThatContradictEachOther(t *testing.T) {
	first, second := held(singleGPU(0)|singleGPU(1)), held(singleGPU(1))
	sharing := &Holding{Shared: singleGPU(1), ShareMiB: 2000}
	sharing.slots[1] = 1
	var used Used
	used.Add(first)
	used.Add(second)
	used.Add(sharing)
	if used.conflicts() != singleGPU(1) {
		t.Errorf("conflicts are %v, want 1", used.conflicts())
	}
	if err := used.Remove(first); err != nil {
		t.Fatal(err)
	}
	if used.WholeGPUs() != singleGPU(1) {
		t.Errorf("with one of two pods gone, %v are held whole, want 1", used.WholeGPUs())
	}
	if err := used.Remove(second); err != nil {
		t.Fatal(err)
	}
	if used.conflicts() != 0 || used.SharedGPUs() != singleGPU(1) {
		t.Errorf("conflicts are %v, shared cards %v; want none, 1", used.conflicts(), used.SharedGPUs())
	}
}

func TestRemovingWhatIsNotThereChangesNothing(t *testing.T) {
	var used Used
	used.Add(held(singleGPU(0)))
	unnamed := UnknownHolding(whole(1))
	sharing := Holding{Whole: singleGPU(0), Shared: singleGPU(1), ShareMiB: 1}
	sharing.slots[1] = 1
	for name, tc := range map[string]struct {
		holding *Holding
		wantErr string
	}{
		"another card":          {held(singleGPU(0) | singleGPU(1)), "cards 1 are not held whole"},
		"memory nobody has":     {&sharing, "card 1 has 0 MiB in use, fewer than 1"},
		"a pod without a name":  {&unnamed, "fewer unnamed cards are in use"},
		"nothing is never lost": {&Holding{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := used
			if err := used.Remove(tc.holding); !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			if used != before {
				t.Error("the failed removal changed what is in use")
			}
		})
	}
}

// TestUnnamedCardsArePessimistic lets pods hold cards that they do not name: f free cards and u unnamed
// leave f-u, however the demand narrows the free ones down.
func TestUnnamedCardsArePessimistic(t *testing.T) {
	large := whole(1)
	large.MemoryMinMiB = 80000
	cases := map[string]struct {
		inv     Inventory
		foreign []*Demand
		d       *Demand
		want    Set
		detail  string
	}{
		"what remains is as many cards as are not held": {
			inv: pcie(), foreign: []*Demand{whole(3)}, d: whole(5), want: firstPositions(8) &^ firstPositions(3),
		},
		"and no more": {
			inv: pcie(), foreign: []*Demand{whole(3)}, d: whole(6),
			detail: "5 of 8 free, 1 short; 3 are held by pods that do not name theirs",
		},
		"the best connected cards count as taken": {
			inv: inventory(4, linked(100, 2, 3)), foreign: []*Demand{whole(2)}, d: whole(2), want: firstPositions(2),
		},
		"the one large card may be the one that is held": {
			inv: inventory(3, sized(24000, 24000, 81920)), foreign: []*Demand{whole(1)}, d: large,
			detail: "0 of 3 free with 80000 MiB, 1 short; 1 are held by pods that do not name theirs",
		},
		"more held than there are leaves none": {
			inv: pcie(), foreign: []*Demand{whole(5), whole(5)}, d: whole(1),
			detail: "0 of 8 free, 1 short; 10 are held by pods that do not name theirs",
		},
		"a share may be on any card, so one card less is whole": {
			inv: inventory(2), foreign: []*Demand{share(1, 2000)}, d: whole(2),
			detail: "1 of 2 free, 1 short; 1 are held by pods that do not name theirs",
		},
		"and every card may lack its memory": {
			inv: inventory(2, sized(3000, 3000)), foreign: []*Demand{share(1, 2000)}, d: share(1, 2000),
			detail: "0 of 2 with 2000 MiB to share, 1 short",
		},
		"a share beside whole cards that nobody names": {
			inv: inventory(2), foreign: []*Demand{whole(1)}, d: share(1, 2000), want: singleGPU(1),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var used Used
			for _, d := range tc.foreign {
				h := UnknownHolding(d)
				used.Add(&h)
			}
			got, reason := allocatorOf(t, tc.inv).Allocate(&used, tc.d)
			if got.Whole|got.Shared != tc.want || reason.Detail() != tc.detail {
				t.Errorf("got %v, %q; want %v, %q", got.Whole|got.Shared, reason.Detail(), tc.want, tc.detail)
			}
		})
	}
}

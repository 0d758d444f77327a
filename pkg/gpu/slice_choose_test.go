package gpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slicedInventory has cards in MIG mode, cut as given: "S" is a slice of 1g.10gb, "L" one of 3g.40gb. Two cards lie on a NUMA node.
func slicedInventory(cuts ...string) Inventory {
	var inv Inventory
	for i, cut := range cuts {
		numa := i / 2
		card := SlicedGPU{GPU: GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, MemoryMiB: 81920, NUMANode: &numa, Health: Healthy}}
		for j, size := range cut {
			slice := GPUSlice{UUID: fmt.Sprintf("MIG-%d-%d", i, j), Profile: "1g.10gb", MemoryMiB: 10}
			if size == 'L' {
				slice.Profile, slice.MemoryMiB = "3g.40gb", 40
			}
			card.Slices = append(card.Slices, slice)
		}
		inv.Sliced = append(inv.Sliced, card)
	}
	return inv
}

// asksSlices is a demand of one container.
func asksSlices(small, large int64) *Demand {
	d := &Demand{}
	for profile, count := range map[string]int64{"1g.10gb": small, "3g.40gb": large} {
		if count > 0 {
			d.Slices = append(d.Slices, SliceDemand{Container: "main", Profile: profile, Count: count})
		}
	}
	d.Profiles = profilePeaks(d.Slices)
	return d
}

// holds is a node on which slices are held.
func (a *Allocator) holds(uuids ...string) *SlicesUsed {
	var used SlicesUsed
	for _, uuid := range uuids {
		used.Add(&SliceHolding{at: []int{a.slices.positions[uuid]}})
	}
	return &used
}

func (a *Allocator) named(h *SliceHolding) []string {
	var names []string
	for _, at := range h.at {
		names = append(names, a.slices.slices[at].UUID)
	}
	return names
}

func TestWhichSlicesAreChosen(t *testing.T) {
	sick := slicedInventory("SS", "SS")
	sick.Sliced[0].Health = "Xid79"
	tests := map[string]struct {
		node         Inventory
		held         []string
		unknown      int64
		small, large int64
		want         []string
		why          Code
	}{
		"the first of an idle node":                      {node: slicedInventory("SS", "SS"), small: 1, want: []string{"MIG-0-0"}},
		"a card that is in use before an idle one":       {node: slicedInventory("SS", "SS"), held: []string{"MIG-1-1"}, small: 1, want: []string{"MIG-1-0"}},
		"the fullest card":                               {node: slicedInventory("SSS", "SSS"), held: []string{"MIG-0-0", "MIG-1-0", "MIG-1-1"}, small: 1, want: []string{"MIG-1-2"}},
		"full by memory, not by count":                   {node: slicedInventory("SSS", "LS"), held: []string{"MIG-0-0", "MIG-0-1", "MIG-1-0"}, small: 1, want: []string{"MIG-1-1"}},
		"as few idle cards as can be":                    {node: slicedInventory("LS", "SS"), small: 2, want: []string{"MIG-1-0", "MIG-1-1"}},
		"of two profiles, from one card that has both":   {node: slicedInventory("SS", "LS"), small: 1, large: 1, want: []string{"MIG-1-0", "MIG-1-1"}},
		"one NUMA node before fuller cards":              {node: slicedInventory("S", "", "S", "S"), held: nil, small: 2, want: []string{"MIG-2-0", "MIG-3-0"}},
		"of several NUMA nodes, where none has enough":   {node: slicedInventory("S", "", "S"), small: 2, want: []string{"MIG-0-0", "MIG-2-0"}},
		"none of a card that is ill":                     {node: sick, small: 1, want: []string{"MIG-1-0"}},
		"too few that are healthy":                       {node: sick, small: 3, why: TooFewHealthy},
		"a profile that nobody has cut":                  {node: slicedInventory("SS"), large: 1, why: TooFewHealthy},
		"all in use":                                     {node: slicedInventory("SS"), held: []string{"MIG-0-0"}, small: 2, why: TooFewFree},
		"those who name none have what the agent takes":  {node: slicedInventory("SS", "SS"), unknown: 1, small: 1, want: []string{"MIG-0-1"}},
		"they count also where nobody knows which it is": {node: slicedInventory("SS"), unknown: 1, small: 2, why: TooFewFree},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := allocatorOf(t, tc.node)
			used := a.holds(tc.held...)
			used.Add(&SliceHolding{unknown: map[string]int64{"1g.10gb": tc.unknown}})
			plan, why := a.AllocateSlices(used, asksSlices(tc.small, tc.large))
			if why.Code != tc.why {
				t.Fatalf("reason %v (%s), want %v", why.Code, why.Detail(), tc.why)
			}
			if why.IsZero() {
				if diff := cmp.Diff(tc.want, a.named(plan.Holding)); diff != "" {
					t.Errorf("slices (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestNoBetterSlicesThanChosen compares the choice with all others there are.
func TestNoBetterSlicesThanChosen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cuts := []string{"", "S", "SS", "L", "LS", "LL", "SSS", "LSS"}
	placed := 0
	for round := range 4000 {
		var node []string
		for range 1 + r.IntN(5) {
			node = append(node, cuts[r.IntN(len(cuts))])
		}
		inv := slicedInventory(node...)
		for i := range inv.Sliced {
			if r.IntN(6) == 0 {
				inv.Sliced[i].Health = "Xid79"
			}
			if r.IntN(5) == 0 {
				inv.Sliced[i].NUMANode = nil
			}
		}
		a := allocatorOf(t, inv)
		if a.slices == nil {
			continue
		}
		var used SlicesUsed
		for at := range a.slices.slices {
			if r.IntN(3) == 0 {
				used.Add(&SliceHolding{at: []int{at}})
			}
		}
		if r.IntN(4) == 0 {
			used.Add(&SliceHolding{unknown: map[string]int64{"1g.10gb": 1}})
		}
		small := r.Int64N(4)
		large := r.Int64N(3)
		if small+large == 0 {
			continue
		}
		d := asksSlices(small, large)
		plan, why := a.AllocateSlices(&used, d)
		want := exhaustively(a.slices.newSlicePicker(&used), small, large)
		if (want == nil) != !why.IsZero() {
			t.Fatalf("round %d, %v: reason %+v, and the best of all are %v", round, node, why, want)
		}
		if want == nil {
			continue
		}
		placed++
		if diff := cmp.Diff(want, plan.Holding.at); diff != "" {
			t.Fatalf("round %d, %v, %d small and %d large, in use %v (-best of all +chosen):\n%s", round, node, small, large, used, diff)
		}
	}
	if placed < 500 {
		t.Errorf("only %d demands had room", placed)
	}
}

// exhaustively looks at every set of free slices, and returns the best by what AllocateSlices promises.
func exhaustively(p *slicePicker, small, large int64) []int {
	var best []int
	var bestWorth [4]int64
	for set := range 1 << len(p.slices) {
		counts, numa, opened := map[string]int64{}, map[int]bool{}, map[int]bool{}
		var at []int
		var fill int64
		free := true
		for i := range p.slices {
			if set>>i&1 == 0 {
				continue
			}
			slice := p.slices[i]
			free = free && p.free[i]
			at = append(at, i)
			counts[slice.Profile]++
			numa[p.gpus[slice.gpu].numa] = true
			fill += p.fill[slice.gpu]
			if p.fill[slice.gpu] == 0 {
				opened[slice.gpu] = true
			}
		}
		if !free || counts["1g.10gb"] != small || counts["3g.40gb"] != large {
			continue
		}
		worth := [4]int64{1, -int64(len(opened)), fill}
		if len(numa) > 1 {
			worth[0] = 0
		}
		order := slices.Compare(worth[:], bestWorth[:])
		if best == nil || order > 0 || order == 0 && slices.Compare(at, best) < 0 {
			best, bestWorth = at, worth
		}
	}
	return best
}

// TestManyIdleCards: beyond what is tried in all combinations, there are still enough.
func TestManyIdleCards(t *testing.T) {
	var node []string
	for i := range 24 {
		node = append(node, []string{"S", "SS", "L"}[i%3])
	}
	inv := slicedInventory(node...)
	for i := range inv.Sliced {
		inv.Sliced[i].NUMANode = nil
	}
	a := allocatorOf(t, inv)
	plan, why := a.AllocateSlices(&SlicesUsed{}, asksSlices(16, 1))
	if !why.IsZero() || len(plan.Holding.at) != 17 || a.IdleSliced(&SlicesUsed{}, plan.Holding) != 15 {
		t.Errorf("reason %+v, slices %v", why, plan.Holding)
	}
}

// TestContainersOfAPodDivideItsSlices: those that run together have different ones, and init containers use those of later ones.
func TestContainersOfAPodDivideItsSlices(t *testing.T) {
	d := &Demand{Slices: []SliceDemand{
		{Container: "first", Lifetime: Init, Profile: "1g.10gb", Count: 2},
		{Container: "proxy", Lifetime: Sidecar, Profile: "1g.10gb", Count: 1},
		{Container: "second", Lifetime: Init, Profile: "1g.10gb", Count: 3},
		{Container: "main", Profile: "1g.10gb", Count: 1},
		{Container: "main", Profile: "3g.40gb", Count: 1},
		{Container: "other", Profile: "1g.10gb", Count: 1},
	}}
	d.Profiles = profilePeaks(d.Slices)
	if diff := cmp.Diff([]ProfileDemand{{"1g.10gb", 4}, {"3g.40gb", 1}}, d.Profiles); diff != "" {
		t.Fatalf("peaks (-want +got):\n%s", diff)
	}
	a := allocatorOf(t, slicedInventory("SSSSL", "SSSS"))
	plan, why := a.AllocateSlices(&SlicesUsed{}, d)
	if !why.IsZero() {
		t.Fatal(why.Detail())
	}
	assignment := a.BuildSliceAssignment(d, &plan)
	got := map[string][]string{}
	for container, held := range assignment {
		for _, slice := range held {
			got[container] = append(got[container], slice.UUID)
			if slice.ParentUUID != "GPU-0" || slice.GPU != 0 {
				t.Errorf("slice %+v is of another card", slice)
			}
		}
	}
	want := map[string][]string{
		"first": {"MIG-0-0", "MIG-0-1"}, "proxy": {"MIG-0-0"}, "second": {"MIG-0-1", "MIG-0-2", "MIG-0-3"},
		"main": {"MIG-0-1", "MIG-0-4"}, "other": {"MIG-0-2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if held := a.ResolveSlices(d, assignment); !held.IsKnown() || !slices.Equal(held.at, plan.Holding.at) {
		t.Errorf("read back it is %+v, want %v", held, plan.Holding.at)
	}
}

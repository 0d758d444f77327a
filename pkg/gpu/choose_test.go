package gpu

import (
	"math/rand/v2"
	"testing"
)

// judge recomputes from the inventory, without any table of the package, what a choice is worth.
type judge struct {
	cards int
	gbps  [MaxGPUs][MaxGPUs]int
	ideal map[int]int
	alive map[[2]uint64]int
}

func newJudge(inv Inventory) *judge {
	j := &judge{cards: len(inv.GPUs), ideal: map[int]int{}, alive: map[[2]uint64]int{}}
	for a := range inv.GPUs {
		for b := range inv.GPUs {
			j.gbps[a][b] = pathSpeed(inv, a, b)
		}
	}
	for set := uint64(1); set < 1<<j.cards; set++ {
		size := Set(set).Len()
		j.ideal[size] = max(j.ideal[size], j.sum(set))
	}
	return j
}

// pathSpeed relies on the indices of the fixtures being their positions.
func pathSpeed(inv Inventory, a, b int) int {
	for _, link := range inv.Links {
		var hasA, hasB bool
		for _, card := range link.GPUs {
			hasA, hasB = hasA || card == a, hasB || card == b
		}
		if hasA && hasB {
			return link.BandwidthGBps
		}
	}
	x, y := inv.GPUs[a], inv.GPUs[b]
	switch {
	case x.PCIeSwitch != "" && x.PCIeSwitch == y.PCIeSwitch:
		return 12
	case x.NUMANode != nil && y.NUMANode != nil && *x.NUMANode == *y.NUMANode:
		return 9
	}
	return 6
}

func (j *judge) sum(set uint64) int {
	sum := 0
	for a := range j.cards {
		for b := range a {
			if set>>a&1 == 1 && set>>b&1 == 1 {
				sum += j.gbps[a][b]
			}
		}
	}
	return sum
}

// disjoint returns the most disjoint ideal sets of a size in a set, by trying every set of that size.
func (j *judge) disjoint(set uint64, size int) int {
	if Set(set).Len() < size {
		return 0
	}
	key := [2]uint64{set, uint64(size)}
	if known, ok := j.alive[key]; ok {
		return known
	}
	most := 0
	for sub := set; sub > 0; sub = (sub - 1) & set {
		if Set(sub).Len() == size && j.sum(sub) == j.ideal[size] {
			most = max(most, 1+j.disjoint(set&^sub, size))
		}
	}
	j.alive[key] = most
	return most
}

// bandwidth returns the highest bandwidth of any set of a size in free.
func (j *judge) bandwidth(free uint64, size int) int {
	most := 0
	for sub := free; sub > 0; sub = (sub - 1) & free {
		if Set(sub).Len() == size {
			most = max(most, j.sum(sub))
		}
	}
	return most
}

// merits returns what a choice is compared by, in order.
func (j *judge) merits(set, left uint64) [5]int {
	return [5]int{j.sum(set), j.disjoint(left, 8), j.disjoint(left, 4), j.disjoint(left, 2), j.sum(left)}
}

// exhaustive returns the best set by trying all of them.
func (j *judge) exhaustive(free uint64, size int) uint64 {
	var best uint64
	for sub := free; sub > 0; sub = (sub - 1) & free {
		if Set(sub).Len() != size {
			continue
		}
		if best == 0 || j.prefers(sub, best, free) {
			best = sub
		}
	}
	return best
}

func (j *judge) prefers(a, b, free uint64) bool {
	x, y := j.merits(a, free&^a), j.merits(b, free&^b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	differ := a ^ b
	return a&(differ&-differ) != 0 // the one with the lowest card that only one of them has
}

// boards are the machines that the tests look at in every state.
var boards = map[string]Inventory{
	"hybrid cube mesh of a DGX-1":        hybridCubeMesh(),
	"NVSwitch":                           nvSwitch(8),
	"PCIe with two switches":             pcie(),
	"PCIe with a bridge on every pair":   inventory(8, switched(4, 4), linked(100, 0, 1), linked(100, 2, 3), linked(100, 4, 5), linked(100, 6, 7)),
	"four cards with one bridge":         inventory(4, switched(2, 4), linked(100, 1, 2)),
	"cards of which nothing is known":    inventory(8),
	"two islands of NVLink, not aligned": inventory(8, switched(2, 4), linked(300, 0, 2, 4, 6), linked(300, 1, 3, 5, 7)),
}

func TestAllocateEqualsExhaustiveSearchInEveryState(t *testing.T) {
	for name, inv := range boards {
		t.Run(name, func(t *testing.T) {
			a, judge := allocatorOf(t, inv), newJudge(inv)
			for free := uint64(0); free < 1<<len(inv.GPUs); free++ {
				for size := 1; size <= Set(free).Len(); size++ {
					compare(t, a, judge, free, size)
				}
			}
		})
	}
}

func TestAllocateEqualsExhaustiveSearchOnRandomTopologies(t *testing.T) {
	topologies := 10_000
	if testing.Short() {
		topologies = 500
	}
	r := rand.New(rand.NewPCG(2, 71))
	for range topologies {
		inv := randomInventory(r, 2+r.IntN(7))
		a, judge := allocatorOf(t, inv), newJudge(inv)
		for range 4 {
			free := r.Uint64() & uint64(a.all)
			if free == 0 {
				continue
			}
			compare(t, a, judge, free, 1+r.IntN(Set(free).Len()))
		}
		if t.Failed() {
			return
		}
	}
}

func TestAllocateEqualsExhaustiveSearchBeyondEightCards(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	for range 20 {
		inv := randomInventory(r, 9+r.IntN(4))
		a, judge := allocatorOf(t, inv), newJudge(inv)
		for range 4 {
			free := r.Uint64()&uint64(a.all) | 1
			compare(t, a, judge, free, 1+r.IntN(Set(free).Len()))
		}
	}
}

// compare asks for a number of whole cards while the others are in use.
func compare(t *testing.T, a *Allocator, judge *judge, free uint64, size int) {
	t.Helper()
	var used Used
	used.Add(held(a.all &^ Set(free)))
	got := mustPlace(t, a, &used, whole(int64(size)))
	want := judge.exhaustive(free, size)
	if uint64(got.Whole) != want {
		t.Errorf("%d of %v: got %v %v, want %v %v", size, Set(free), got.Whole,
			judge.merits(uint64(got.Whole), free&^uint64(got.Whole)), Set(want), judge.merits(want, free&^want))
	}
	if bandwidth := judge.bandwidth(free, size); a.SetBandwidth(got.Whole) != int64(bandwidth) {
		t.Errorf("%d of %v: bandwidth is %d, want %d", size, Set(free), a.SetBandwidth(got.Whole), bandwidth)
	}
	ideal := max(judge.ideal[size], 1)
	if value := 100 * judge.sum(want) / ideal; size > 1 && a.SetValue(got.Whole) != int64(value) {
		t.Errorf("%d of %v: value is %d, want %d", size, Set(free), a.SetValue(got.Whole), value)
	}
}

func TestPotentialEqualsExhaustiveSearch(t *testing.T) {
	for name, inv := range boards {
		t.Run(name, func(t *testing.T) {
			a, judge := allocatorOf(t, inv), newJudge(inv)
			for free := uint64(0); free < 1<<len(inv.GPUs); free++ {
				want := Potential{judge.disjoint(free, 8), judge.disjoint(free, 4), judge.disjoint(free, 2)}
				if got := a.PotentialOf(Set(free)); got != want {
					t.Errorf("%v: got %+v, want %+v", Set(free), got, want)
				}
			}
		})
	}
}

// TestManyCards looks at machines with more cards than fit in tables: sets are grown, which is optimal
// where links form islands.
func TestManyCards(t *testing.T) {
	islands := inventory(24, switched(4, 8))
	for first := 0; first < 24; first += 8 {
		cards := make([]int, 8)
		for i := range cards {
			cards[i] = first + i
		}
		linked(450, cards...)(&islands)
	}
	a := allocatorOf(t, islands)
	var used Used
	used.Add(held(singleGPU(0) | singleGPU(9)))
	cases := map[string]struct {
		asked int64
		want  Set
	}{
		"a whole island stays one":                       {8, firstPositions(8) << 16},
		"seven cards take an island that is broken":      {7, firstPositions(8) &^ singleGPU(0)},
		"one card comes from an island that is broken":   {1, singleGPU(1)},
		"all free cards are one set":                     {22, firstPositions(24) &^ singleGPU(0) &^ singleGPU(9)},
		"fifteen take the whole island and a broken one": {15, firstPositions(8)<<16 | firstPositions(8)&^singleGPU(0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mustPlace(t, a, &used, whole(tc.asked)); got.Whole != tc.want {
				t.Errorf("got %v, want %v", got.Whole, tc.want)
			}
		})
	}
	if value := a.SetValue(firstPositions(8) << 8); value != 100 {
		t.Errorf("an island is worth %d, want 100", value)
	}
	if value := a.SetValue(singleGPU(0)); value != 100 {
		t.Errorf("one card is worth %d, want 100", value)
	}
	if got, want := a.PotentialOf(a.FreeGPUs(&used)), (Potential{Eights: 2, Fours: 5, Twos: 11}); got != want {
		t.Errorf("22 cards make %+v, want %+v", got, want)
	}
	if _, reason := a.Allocate(&used, whole(23)); reason.Code != TooFewFree || reason.MissingGPUs() != 1 {
		t.Errorf("23 of 22 free: got %v: %s", reason.Code, reason.Detail())
	}
}

func TestTopologiesShareEqualNodes(t *testing.T) {
	var known Topologies
	first, second, other := pcie(), inventory(8, switched(4, 4), unhealthy(3), sized(1, 2, 3)), hybridCubeMesh()
	if known.topologyFor(&first) != known.topologyFor(&second) {
		t.Error("nodes that differ in health and memory have two topologies, want one")
	}
	if known.topologyFor(&first) == known.topologyFor(&other) {
		t.Error("nodes with different links have one topology, want two")
	}
	for n := range 2 * maxTopologies {
		inv := inventory(2, linked(minLinkGBps+n, 0, 1))
		known.topologyFor(&inv)
	}
	if len(known.known) > maxTopologies {
		t.Errorf("%d topologies are kept, want at most %d", len(known.known), maxTopologies)
	}
}

package gpu

import (
	"sync"
	"testing"
)

func allocatorOf(t testing.TB, inv Inventory) *Allocator {
	t.Helper()
	a, err := NewAllocator(inv, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// whole is a demand of one container for whole cards.
func whole(n int64) *Demand {
	return &Demand{Request: Request{Whole: n}, Containers: []ContainerDemand{{Name: "main", Whole: n}}}
}

// share is a demand of one container for some memory of each of n cards.
func share(n, mib int64) *Demand {
	return &Demand{Request: Request{Shared: n}, ShareMiB: mib, Containers: []ContainerDemand{{Name: "main", Shared: n}}}
}

// held makes a holding of whole cards.
func held(cards Set) *Holding { return &Holding{Whole: cards} }

func mustPlace(t testing.TB, a *Allocator, used *Used, d *Demand) Allocation {
	t.Helper()
	allocation, reason := a.Allocate(used, d)
	if !reason.IsZero() {
		t.Fatalf("no place: %v: %s", reason.Code, reason.Detail())
	}
	return allocation
}

func TestAllocateNeverMixesWholeAndShared(t *testing.T) {
	a := allocatorOf(t, pcie())
	var used Used
	first := mustPlace(t, a, &used, share(1, 2000))
	used.Add(&first.Holding)
	if got := mustPlace(t, a, &used, whole(4)); got.Whole != firstPositions(8)&^firstPositions(4) {
		t.Errorf("four whole cards beside a shared one are %v, want 4-7", got.Whole)
	}
	if _, reason := a.Allocate(&used, whole(8)); reason.Code != TooFewFree || reason.Detail() != "7 of 8 free, 1 short" {
		t.Errorf("eight whole cards beside a shared one: %v: %s", reason.Code, reason.Detail())
	}
	used.Add(held(a.all &^ first.Shared))
	if got := mustPlace(t, a, &used, share(1, 2000)); got.Shared != first.Shared {
		t.Errorf("a share goes to %v, want %v, the only card that is not whole", got.Shared, first.Shared)
	}
}

func TestAllocateNeverChoosesUnhealthyCards(t *testing.T) {
	a := allocatorOf(t, inventory(4, unhealthy(0, 2)))
	if got := mustPlace(t, a, &Used{}, whole(2)); got.Whole != singleGPU(1)|singleGPU(3) {
		t.Errorf("whole cards are %v, want 1,3", got.Whole)
	}
	if got := mustPlace(t, a, &Used{}, share(2, 100)); got.Shared != singleGPU(1)|singleGPU(3) {
		t.Errorf("shared cards are %v, want 1,3", got.Shared)
	}
}

func TestAllocateKeepsTheMinimumMemoryOfEachCard(t *testing.T) {
	a := allocatorOf(t, inventory(4, sized(24576, 81920, 24576, 0)))
	large := whole(1)
	large.MemoryMinMiB = 40000
	if got := mustPlace(t, a, &Used{}, large); got.Whole != singleGPU(1) {
		t.Errorf("a card of 40000 MiB is %v, want 1", got.Whole)
	}
	sharing := share(1, 100)
	sharing.MemoryMinMiB = 40000
	if got := mustPlace(t, a, &Used{}, sharing); got.Shared != singleGPU(1) {
		t.Errorf("a share of a card of 40000 MiB is on %v, want 1", got.Shared)
	}
}

func TestADemandOfNothingFitsAnywhere(t *testing.T) {
	a := allocatorOf(t, inventory(0))
	if got := mustPlace(t, a, &Used{}, &Demand{}); got.Holding != (Holding{}) {
		t.Errorf("it holds %+v", got.Holding)
	}
}

// TestAllocateDividesThePodsSet asks for several containers at once.
func TestAllocateDividesThePodsSet(t *testing.T) {
	demand := &Demand{Containers: []ContainerDemand{
		{Name: "prepare", Lifetime: Init, Whole: 3},
		{Name: "proxy", Lifetime: Sidecar, Whole: 1},
		{Name: "warm", Lifetime: Init, Whole: 4},
		{Name: "serve", Whole: 1},
		{Name: "train", Whole: 2},
	}}
	a := allocatorOf(t, hybridCubeMesh())
	got := mustPlace(t, a, &Used{}, demand)
	if got.Whole.Len() != 5 {
		t.Fatalf("the pod holds %v, want 5 cards: the sidecar and the second init container together", got.Whole)
	}
	proxy, serve, train := got.ContainerGPUs(1), got.ContainerGPUs(3), got.ContainerGPUs(4)
	if proxy&serve != 0 || proxy&train != 0 || serve&train != 0 {
		t.Errorf("containers that run together share cards: %v, %v, %v", proxy, serve, train)
	}
	if a.SetBandwidth(train) != 50 {
		t.Errorf("the largest container has %v of %v with %d GB/s, want a pair with 50", train, got.Whole, a.SetBandwidth(train))
	}
	if got.ContainerGPUs(0)&^got.Whole != 0 || got.ContainerGPUs(0).Len() != 3 {
		t.Errorf("the first init container has %v, want 3 of %v", got.ContainerGPUs(0), got.Whole)
	}
	if got.ContainerGPUs(2)&^(got.Whole&^proxy) != 0 || got.ContainerGPUs(2).Len() != 4 {
		t.Errorf("the second init container has %v, want 4 of %v", got.ContainerGPUs(2), got.Whole&^proxy)
	}
}

func TestSumsSaturate(t *testing.T) {
	demand := &Demand{Containers: []ContainerDemand{{Name: "a", Whole: 1<<63 - 1}, {Name: "b", Whole: 1<<63 - 1}}}
	a := allocatorOf(t, nvSwitch(8))
	if _, reason := a.Allocate(&Used{}, demand); reason.Code != TooFewGPUs || reason.Asked != 1<<63-1 {
		t.Errorf("two containers of 2^63-1 GPUs: %v: %s", reason.Code, reason.Detail())
	}
	demand = &Demand{ShareMiB: 1 << 24, Containers: []ContainerDemand{{Name: "a", Shared: 1<<63 - 1}, {Name: "b", Shared: 1<<63 - 1}}}
	if _, reason := a.Allocate(&Used{}, demand); reason.Code != TooFewGPUs {
		t.Errorf("two containers of 2^63-1 shares: %v: %s", reason.Code, reason.Detail())
	}
	var used Used
	foreign := UnknownHolding(demand)
	for range 1000 {
		used.Add(&foreign)
	}
	for range 1000 {
		if err := used.Remove(&foreign); err != nil {
			t.Fatal(err)
		}
	}
	if used != (Used{}) {
		t.Errorf("1000 foreign pods of 2^63-1 cards come and go, and leave %+v", used.UnknownUse())
	}
}

func TestAllocateDoesNotAllocateMemory(t *testing.T) {
	a := allocatorOf(t, nvSwitch(16))
	var used Used
	used.Add(held(0b1001))
	for name, d := range map[string]*Demand{"whole": whole(4), "shared": share(3, 1000), "no place": whole(15)} {
		if allocs := testing.AllocsPerRun(100, func() { a.Allocate(&used, d) }); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocs)
		}
	}
}

// TestAllocateFromManyGoroutines lets them fill the shared tables at the same time.
func TestAllocateFromManyGoroutines(t *testing.T) {
	var known Topologies
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			a, err := NewAllocator(pcie(), &known)
			if err != nil {
				t.Error(err)
				return
			}
			alone := newTopology(a.topology.gpus, a.topology.pairs)
			for taken := range Set(256) {
				var used Used
				used.Add(held(taken))
				got, reason := a.Allocate(&used, whole(3))
				if want := a.all &^ taken; reason.IsZero() && got.Whole != alone.searchBestSet(want, 3) {
					t.Errorf("3 of %v are %v, want %v", want, got.Whole, alone.searchBestSet(want, 3))
				}
			}
		})
	}
	group.Wait()
}

package fragmentation

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAForecastHoldsUntilItsPoolChanges(t *testing.T) {
	there := func() (map[string]*Pool, map[string]*population) {
		return map[string]*Pool{"a": {cards: 1}, "b": {cards: 1}},
			map[string]*population{"a": {all: 32, changes: 40, rate: 0.5}, "b": {all: 5000, changes: 6000, rate: 0.5}}
	}
	tests := map[string]struct {
		change func(map[string]*Pool, map[string]*population)
		want   []string // the pools that are looked at again
	}{
		"nothing":                             {func(map[string]*Pool, map[string]*population) {}, nil},
		"a pod of 32":                         {func(_ map[string]*Pool, pods map[string]*population) { pods["a"].changes++ }, nil},
		"two of 32":                           {func(_ map[string]*Pool, pods map[string]*population) { pods["a"].changes += 2 }, []string{"a"}},
		"255 of 5,000":                        {func(_ map[string]*Pool, pods map[string]*population) { pods["b"].changes += 255 }, nil},
		"256 of 5,000":                        {func(_ map[string]*Pool, pods map[string]*population) { pods["b"].changes += 256 }, []string{"b"}},
		"pods leave no longer":                {func(_ map[string]*Pool, pods map[string]*population) { pods["b"].rate = 0.4 }, []string{"b"}},
		"a node":                              {func(nodes map[string]*Pool, _ map[string]*population) { nodes["a"] = &Pool{cards: 1} }, []string{"a"}},
		"the first pods came":                 {func(_ map[string]*Pool, pods map[string]*population) { pods["a"] = &population{} }, []string{"a"}},
		"the last pods have left":             {func(_ map[string]*Pool, pods map[string]*population) { delete(pods, "a") }, []string{"a"}},
		"the last node has left, for another": {func(nodes map[string]*Pool, _ map[string]*population) { delete(nodes, "a"); nodes["c"] = &Pool{} }, []string{"c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, pods := there()
			first := (*Forecasts)(nil).NextForecasts(nodes, nil, &PodCount{pools: pods})
			tc.change(nodes, pods)
			second := first.NextForecasts(nodes, nil, &PodCount{pools: pods})
			for _, pool := range slices.Sorted(maps.Keys(nodes)) {
				again := second.Generation(pool) == 2
				if again != slices.Contains(tc.want, pool) || again == (second.pools[pool] == first.pools[pool]) {
					t.Errorf("pool %s is looked at again: %t", pool, again)
				}
			}
		})
	}
}

// TestRatesFollowFromTurns has pods come and leave. Those before the first turn have not come, they were there.
func TestRatesFollowFromTurns(t *testing.T) {
	ones, twos, elsewhere := PodRequest{Pool: "a", Whole: 1}, PodRequest{Pool: "a", Whole: 2}, PodRequest{Pool: "b", Shared: 1, ShareMiB: 500}
	type in struct {
		Pods map[PodRequest]int64
		Rate float64
	}
	steps := []struct {
		why        string
		came, left []PodRequest
		want       map[string]in
	}{
		{"those that were there before are not new, and none has left", []PodRequest{ones, twos, twos}, []PodRequest{twos}, map[string]in{"a": {map[PodRequest]int64{ones: 1, twos: 1}, 0}}},
		{"nothing changed", nil, nil, map[string]in{"a": {map[PodRequest]int64{ones: 1, twos: 1}, 0}}},
		{"two come, one leaves", []PodRequest{twos, twos}, []PodRequest{ones}, map[string]in{"a": {map[PodRequest]int64{twos: 3}, 0.5}}},
		{"pods without cards are nobody", []PodRequest{{Pool: "a", MilliCPU: 1}}, []PodRequest{{Pool: "a", MilliCPU: 1}}, map[string]in{"a": {map[PodRequest]int64{twos: 3}, 0.5}}},
		{"one leaves, another comes elsewhere", []PodRequest{elsewhere}, []PodRequest{twos},
			map[string]in{"a": {map[PodRequest]int64{twos: 2}, 1}, "b": {map[PodRequest]int64{elsewhere: 1}, 0}}},
		{"all leave", nil, []PodRequest{twos, twos, elsewhere}, map[string]in{"a": {map[PodRequest]int64{}, 1}, "b": {map[PodRequest]int64{}, 1}}},
	}
	var c PodCount
	for _, step := range steps {
		for _, asked := range step.came {
			c.Add(asked)
		}
		for _, asked := range step.left {
			c.RemovePod(asked)
		}
		c.EndRound()
		got, all := map[string]in{}, int64(0)
		for pool, there := range c.pools {
			got[pool] = in{there.pods, there.rate}
			all += there.all
		}
		if diff := cmp.Diff(step.want, got); diff != "" || all != c.Len() {
			t.Errorf("%s: %d pods, of which pools have %d (-want +got):\n%s", step.why, c.Len(), all, diff)
		}
	}
	for range 20 {
		c.EndRound()
	}
	if len(c.pools) > 0 {
		t.Errorf("pools %v are remembered, long after all pods have left", c.pools)
	}
}

func TestDemandIsBySizeOfCard(t *testing.T) {
	asked := map[PodRequest]int64{
		{Pool: "a", Shared: 1, ShareMiB: 500, MilliCPU: 1000}: 3, {Pool: "a", Whole: 2, Types: "T4"}: 1,
	}
	nodes := &Pool{cards: 2, milliCPU: 1000, memoryMiB: 1}
	got := map[int64]int64{} // pods by share
	for class, pods := range nodes.poolDemand(asked, 1000) {
		got[class.Share] += pods
	}
	if diff := cmp.Diff(map[int64]int64{500: 3, 1000: 1}, got); diff != "" {
		t.Errorf("demand (-want +got):\n%s", diff)
	}
	if small := nodes.poolDemand(asked, 400); len(small) != 1 {
		t.Errorf("demand %v on cards of 400 MiB, want the whole cards alone", small)
	}
}

func TestPodsThatNoNodeCouldHoldAreNotExpected(t *testing.T) {
	nodes := &Pool{cards: 8, milliCPU: 64_000, memoryMiB: 4096}
	tests := map[string]struct {
		ask  PodRequest
		want bool
	}{
		"as much as the largest node has": {PodRequest{Whole: 8, MilliCPU: 64_000, MemoryMiB: 4096}, true},
		"a card more":                     {PodRequest{Whole: 9}, false},
		"a number of cards that wraps when it is put in thousandths": {PodRequest{Whole: 1 << 61}, false},
		"two shares of each card":                                    {PodRequest{Shared: 16, ShareMiB: 500}, true},
		"a share more":                                               {PodRequest{Shared: 17, ShareMiB: 500}, false},
		"a share of more than a card":                                {PodRequest{Shared: 1, ShareMiB: 1001}, false},
		"more CPU":                                                   {PodRequest{Whole: 1, MilliCPU: 64_001}, false},
		"more memory":                                                {PodRequest{Whole: 1, MemoryMiB: 4097}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.ask.Pool = "a"
			if got := len(nodes.poolDemand(map[PodRequest]int64{tc.ask: 1}, 1000)) > 0; got != tc.want {
				t.Errorf("%+v is expected: %t, want %t", tc.ask, got, tc.want)
			}
		})
	}
}

// TestUnequalCardsAreEachValuedBySize has a node with a small and a large card. Shares are expected of which only the
// large one holds two.
func TestUnequalCardsAreEachValuedBySize(t *testing.T) {
	var pool Pool
	offer := Offer{Pool: "a", Shape: Shape{Cards: 2}, Cards: 2, Sizes: []int64{600, 1000}}
	pool.Add(&offer)
	var pods PodCount
	for range 10 {
		pods.Add(PodRequest{Pool: "a", Shared: 1, ShareMiB: 500})
	}
	forecast := NewForecast("a", &pool, nil, &pods)
	small, large := forecast.models[600], forecast.models[1000]
	if small == nil || large == nil {
		t.Fatalf("models %v, want one for each size of card", forecast.models)
	}
	if small.GPUValue(500) != 0 || large.GPUValue(500) != Whole/2 {
		t.Errorf("half a card is worth %v of the small one and %v of the large one, want 0 and 500", small.GPUValue(500), large.GPUValue(500))
	}
	on := forecast.PlaceOn(&offer.Shape, 0, 0)
	on.AddGPU(600, Whole, 0)
	on.AddGPU(1000, Whole, Whole/2)
	if on.node.Free != 2*Whole || on.after.Free != Whole+Whole/2 || on.node.Unused != 2 || on.after.Rest != Whole/2 {
		t.Errorf("left are %+v and then %+v, want two whole cards and then one and a half", on.node, on.after)
	}
	if value, inUse := on.NodeValue(&PodRequest{Pool: "a", Shared: 1, ShareMiB: 500}, 800); value != 0 || inUse {
		t.Errorf("cards of a size that came a moment ago are worth %d, in use: %t", value, inUse)
	}
}

// TestMachinesOfOneModelAreAlike: those of a model differ by some MiB, and their cards as well.
func TestMachinesOfOneModelAreAlike(t *testing.T) {
	forecast := func(differ int64) *Forecast {
		var nodes Pool
		var pods PodCount
		for i := range int64(3000) {
			nodes.Add(&Offer{
				Shape: Shape{Cards: 8, MilliCPU: 192_000 - 10*differ*i%1000, MemoryMiB: 2<<20 - differ*i, Type: "H100"},
				Cards: 8, Sizes: []int64{81920 - differ*(i%100)},
			})
		}
		nodes.Add(&Offer{Shape: Shape{Cards: 8, MilliCPU: 96_000, MemoryMiB: 1 << 20, Type: "H100"}, Cards: 8, Sizes: []int64{40960}})
		for i := range int64(100) {
			pods.Add(PodRequest{Whole: 8, MilliCPU: 100_000 - 1000*(i%20), MemoryMiB: 1 << 10})
			pods.Add(PodRequest{Shared: 1, ShareMiB: 7000, MilliCPU: 1000, MemoryMiB: 1 << 10})
		}
		return NewForecast("", &nodes, nil, &pods)
	}
	equal, unequal := forecast(0), forecast(1)
	if len(unequal.models) > 3 || len(unequal.scarcity) > 6 {
		t.Errorf("%d models and %d kinds of hosts, want a handful", len(unequal.models), len(unequal.scarcity))
	}
	value := func(f *Forecast, less int64, asked PodRequest) int64 {
		shape := Shape{Cards: 8, MilliCPU: 192_000 - less, MemoryMiB: 2<<20 - less, Type: "H100"}
		on := f.PlaceOn(&shape, shape.MilliCPU-40_000, shape.MemoryMiB/2)
		for card := range int64(8) {
			on.AddGPU(81920-less%100, Whole, min(max(asked.Whole-card, 0), 1)*Whole)
		}
		value, _ := on.NodeValue(&asked, 81920-less%100)
		return value
	}
	for _, asked := range []PodRequest{{Whole: 8, MilliCPU: 90_000, MemoryMiB: 1 << 10}, {Whole: 1, MilliCPU: 4000, MemoryMiB: 1 << 10}} {
		for _, less := range []int64{0, 1, 99, 999} {
			a, b := value(equal, 0, asked), value(unequal, less, asked)
			if diff := a - b; diff > Fraction/20 || diff < -Fraction/20 { // 0.05 points
				t.Errorf("%d GPUs on a host with %d less: %d, and %d where all are equal, in units of %d to a point", asked.Whole, less, b, a, Fraction)
			}
		}
	}
	if small := unequal.scarcity[Shape{Cards: 8, MilliCPU: 96_000, MemoryMiB: 1 << 20, Type: "H100"}]; small >= 1 {
		t.Errorf("the host with half the cores is scarce by %v, though few of the large pods run there", small)
	}
}

// BenchmarkForecast is one for a pool whose machines differ.
func BenchmarkForecast(b *testing.B) {
	for name, tc := range map[string]struct{ nodes, shapes, sizes int64 }{
		"5,000 equal":       {5000, 1, 1},
		"5,000 that differ": {5000, 5000, 1},
		"100 sizes of card": {5000, 1, 100},
	} {
		b.Run(name, func(b *testing.B) {
			var nodes Pool
			var pods PodCount
			for i := range tc.nodes {
				shape := Shape{Cards: 8, MilliCPU: 192_000, MemoryMiB: 2<<20 - i%tc.shapes, Type: "H100"}
				nodes.Add(&Offer{Shape: shape, Cards: 8, Sizes: []int64{81920 - i%tc.sizes}})
			}
			for i := range int64(200) {
				asked := PodRequest{MilliCPU: 1000 * (1 + i%64), MemoryMiB: 1024 * (1 + i%97), Types: "H100"}
				switch i % 4 {
				case 0:
					asked.Whole = 8
				case 1:
					asked.Whole = 1
				default:
					asked.Shared, asked.ShareMiB = 1, 1000+317*i
				}
				pods.Add(asked)
			}
			for b.Loop() {
				NewForecast("", &nodes, nil, &pods)
			}
		})
	}
}

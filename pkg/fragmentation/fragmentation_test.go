package fragmentation_test

import (
	"math"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// sharing is a demand for shares alone, by their size.
func sharing(pods map[int64]int64) fragmentation.Demand {
	demand := fragmentation.Demand{}
	for share, count := range pods {
		demand[fragmentation.Class{Cards: 1, Share: share, MilliCPU: 1000, MemoryMiB: 1024}] = count
	}
	return demand
}

func TestCard(t *testing.T) {
	tests := map[string]struct {
		demand map[int64]int64
		want   map[int64]float64 // by what is free
	}{
		"without a demand for shares only a whole card is worth anything": {nil, map[int64]float64{999: 0, 1000: 1000}},
		"halves that come in pairs":                                       {map[int64]int64{500: 10}, map[int64]float64{499: 0, 500: 500, 999: 500, 1000: 1000}},
		"small shares that fill up other cards anyhow are worth nothing": {
			map[int64]int64{810: 100, 160: 10}, map[int64]float64{190: 0, 400: 0, 810: 1000, 1000: 1000},
		},
		"small shares that need cards of their own have a price": {
			map[int64]int64{810: 10, 160: 100}, map[int64]float64{160: 1000. / 6, 190: 1000. / 6, 480: 500, 840: 5000. / 6},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			model := fragmentation.NewModel(sharing(tc.demand), 0)
			for free, want := range tc.want {
				if got := model.GPUValue(free); math.Abs(got-want) > 1e-6 {
					t.Errorf("%d thousandths are worth %v, want %v", free, got, want)
				}
			}
		})
	}
}

// TestPricesAreThoseOfAnOptimum checks duality on random demands: no combination of shares that fits on a card is worth
// more than the card, and more room is never worth less.
func TestPricesAreThoseOfAnOptimum(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 50 {
		pods := map[int64]int64{}
		for range 1 + random.Intn(20) {
			pods[1+random.Int63n(999)] = 1 + random.Int63n(1000)
		}
		model := fragmentation.NewModel(sharing(pods), 0)
		for free := int64(1); free <= fragmentation.Whole; free++ {
			if model.GPUValue(free) < model.GPUValue(free-1) {
				t.Fatalf("demand %v: %d thousandths are worth less than %d", pods, free, free-1)
			}
		}
		for a := range pods {
			for b := range pods {
				if a+b <= fragmentation.Whole && model.GPUValue(a)+model.GPUValue(b) > fragmentation.Whole+1e-6 {
					t.Fatalf("demand %v: %d and %d fit on a card and are worth more than it", pods, a, b)
				}
			}
		}
	}
}

func TestNodeIsWorthWhatItsCPUCanFeed(t *testing.T) {
	model := fragmentation.NewModel(fragmentation.Demand{
		{Cards: 1, Share: 1000, MilliCPU: 4000, MemoryMiB: 1}: 1, {Cards: 1, Share: 1000, MilliCPU: 12_000, MemoryMiB: 1}: 1,
	}, 0)
	tests := map[string]struct {
		cards    float64
		milliCPU int64
		want     float64
	}{
		"enough for every class":                             {8000, 96_000, 8000},
		"half of the demand can use all cards, half of them": {8000, 48_000, (8000 + 4000) / 2},
		"too little for either":                              {8000, 12_000, (3000 + 1000) / 2},
		"no CPU feeds no card":                               {8000, 0, 0},
		"more is asked of the node than it has":              {8000, -5000, 0},
		"no card needs no CPU":                               {0, 96_000, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := model.NodeValue(tc.cards, tc.milliCPU, 1<<40); math.Abs(got-tc.want) > 1e-6 {
				t.Errorf("worth %v, want %v", got, tc.want)
			}
		})
	}
	if got := model.NodeValue(8000, 96_000, 4); math.Abs(got-4000) > 1e-6 {
		t.Errorf("with memory for four pods the node is worth %v, want 4000", got)
	}
}

func TestWaste(t *testing.T) {
	demand := fragmentation.Demand{
		{Cards: 1, Share: 500, MilliCPU: 1, MemoryMiB: 1}: 8, {Cards: 8, Share: 1000, MilliCPU: 8, MemoryMiB: 1}: 2,
	}
	node := func(free float64, unused int64, pressure float64) fragmentation.Node {
		return fragmentation.Node{Free: free, MilliCPU: 1e6, MemoryMiB: 1e6, Cards: 8, Unused: unused, Pressure: pressure, Scarcity: 1}
	}
	scarce := func(scarcity float64) fragmentation.Node {
		idle := node(8000, 8, 0)
		idle.Scarcity = scarcity
		return idle
	}
	after := func(free float64, rest int64) fragmentation.After { return fragmentation.After{Free: free, Rest: rest} }
	half, most := fragmentation.Class{Cards: 1, Share: 500}, fragmentation.Class{Cards: 1, Share: 600}
	whole, eight := fragmentation.Class{Cards: 1, Share: 1000}, fragmentation.Class{Cards: 8, Share: 1000}
	tests := map[string]struct {
		node     fragmentation.Node
		class    fragmentation.Class
		after    fragmentation.After
		turnover float64
		want     float64
	}{
		"half of an unused card, half of the cards unused":                          {node(4000, 4, 0), half, after(3500, 500), 0, 50 + 35},
		"the other half of a card":                                                  {node(500, 0, 0), half, after(0, 0), 0, 0},
		"more, so that the rest is too small for a half":                            {node(4000, 4, 0), most, after(3000, 400), 0, 50 + 28},
		"a card of an idle node of eight":                                           {node(8000, 8, 0), whole, after(7000, 0), 0, 100 + 60 + 80},
		"all cards of it":                                                           {node(8000, 8, 0), eight, after(0, 0), 0, 100},
		"a card of a node in use, to which all ever came":                           {node(7000, 7, 0), whole, after(6000, 0), 0, 87.5},
		"a card of a node in use, which may be idle soon":                           {node(7000, 7, 0), whole, after(6000, 0), 1, 87.5 + 140*0.7},
		"and of one that may be idle later":                                         {node(6000, 6, 0), whole, after(5000, 0), 1, 75 + 140*0.7*0.7},
		"a card of an idle node on which large pods depend, to which all ever came": {scarce(2), whole, after(7000, 0), 0, 100 + 60 + 80},
		"the same where pods leave":                                                 {scarce(2), whole, after(7000, 0), 1, 100 + 2*140},
		"and of an idle node that is of no use to large pods":                       {scarce(0), whole, after(7000, 0), 1, 100},
		"a card of a type that others insist on":                                    {node(4000, 4, 2), whole, after(3000, 0), 0, 50 + 2000},
		"no card, and CPU that nobody misses":                                       {node(4000, 4, 0), fragmentation.Class{MilliCPU: 1000}, after(4000, 0), 0, 0},
		"no card, and the last CPU beside four cards":                               {node(4000, 4, 0), fragmentation.Class{MilliCPU: 1e6}, after(4000, 0), 0, 4000},
		"a rest that no pod fits in, and that soon comes back":                      {node(1000, 0, 0), half, after(100, 0), 1, 400./16 + 140*math.Pow(0.7, 8)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			model := fragmentation.NewModel(demand, tc.turnover)
			if got := model.PodWaste(&tc.node, &tc.class, tc.after); math.Abs(got-tc.want) > 1e-6 {
				t.Errorf("wastes %v thousandths of a card, want %v", got, tc.want)
			}
		})
	}
}

func TestValue(t *testing.T) {
	const point = fragmentation.Fraction
	for waste, want := range map[float64]int64{0: 50 * point, 1e-9: 50 * point, -1e-9: 50 * point, 1: 50*point - 1, 100: 49 * point, -1: 50*point + 1, 1e9: 0, -1e9: 100 * point, math.Inf(1): 0, math.Inf(-1): 100 * point} {
		if got := fragmentation.ScoreOfWaste(waste); got != want {
			t.Errorf("Value(%v) = %d, want %d", waste, got, want)
		}
	}
	if got := fragmentation.ScoreOfWaste(math.NaN()); got != 0 {
		t.Errorf("Value(NaN) = %d, want 0", got)
	}
	if fragmentation.NodeRank(50, true) <= fragmentation.NodeRank(50, false) || fragmentation.NodeRank(49, true) >= fragmentation.NodeRank(50, false) {
		t.Error("a node in use comes first among equals, and only there")
	}
}

func TestPressure(t *testing.T) {
	demand := fragmentation.Demand{
		{Cards: 1, Share: 1000, Types: "A10"}: 10, {Cards: 1, Share: 1000, Types: "T4,V100"}: 10, {Cards: 1, Share: 1000}: 20,
		{Cards: 1, Share: 1000, Types: "H100"}: 40,
	}
	got := fragmentation.ComputePressure(demand, map[string]int64{"A10": 10, "T4": 20, "V100": 20, "G2": 50})
	// A10: an eighth of the demand names a tenth of the cards; T4 and V100: an eighth names two fifths.
	if diff := cmp.Diff(map[string]float64{"A10": 1.25, "T4": 0.3125, "V100": 0.3125}, got); diff != "" {
		t.Errorf("pressure (-want +got):\n%s", diff)
	}
}

func TestModelsOfEqualDemandsAreEqual(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	demand := fragmentation.Demand{}
	for range 500 {
		demand[fragmentation.Class{Cards: 1 + random.Int63n(8), Share: 1 + random.Int63n(1000), MilliCPU: random.Int63n(9000), MemoryMiB: random.Int63n(9000)}] = 1 + random.Int63n(9)
	}
	first := fragmentation.NewModel(demand, 0)
	for range 5 {
		again := fragmentation.NewModel(demand, 0)
		if first.GPUValue(700) != again.GPUValue(700) || first.NodeValue(5000, 7777, 8888) != again.NodeValue(5000, 7777, 8888) {
			t.Fatal("two models of one demand differ, so decisions would not be reproducible")
		}
	}
}

// TestPointsStayInRange has demands and nodes of any size, also such that products and sums of integers would wrap.
func TestPointsStayInRange(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	number := func() int64 { // of any size, and often a power of two, since products of these wrap to 0
		if random.Intn(2) == 0 {
			return 1 << random.Intn(63)
		}
		return random.Int63() >> random.Intn(63)
	}
	for range 200 {
		demand, class := fragmentation.Demand{}, fragmentation.Class{}
		for range random.Intn(8) {
			class = fragmentation.Class{Cards: number(), Share: 1 + random.Int63n(1000), MilliCPU: number(), MemoryMiB: number(), Types: "T4"}
			demand[class] = number()
		}
		model := fragmentation.NewModel(demand, random.Float64())
		shape := fragmentation.Shape{Cards: number(), MilliCPU: number(), MemoryMiB: number(), Type: "T4"}
		capacity := map[string]int64{"T4": 1 + number()>>32, "A10": number() >> 32}
		node := fragmentation.Node{
			Free: float64(random.Intn(9000)), Cards: 8, Unused: random.Int63n(9), MilliCPU: -number(), MemoryMiB: number(),
			Pressure: fragmentation.ComputePressure(demand, capacity)["T4"],
			Scarcity: fragmentation.ComputeScarcity(demand, map[fragmentation.Shape]int64{shape: number()})[shape],
		}
		waste := model.PodWaste(&node, &class, fragmentation.After{Free: node.Free * random.Float64(), Rest: random.Int63n(1000)})
		if points := fragmentation.ScoreOfWaste(waste); math.IsNaN(waste) || points < 0 || points > 100*fragmentation.Fraction {
			t.Fatalf("demand %v: %+v wastes %v on %+v, which is %d points", demand, class, waste, node, points)
		}
	}
}

func TestProportionsSurviveWhatWouldWrap(t *testing.T) {
	for _, cards := range []int64{1 << 54, 1 << 61, math.MaxInt64} {
		got := fragmentation.ComputePressure(fragmentation.Demand{
			{Cards: cards, Share: 1000, Types: "A10"}: 3, {Cards: cards, Share: 1000}: 3,
		}, map[string]int64{"A10": 1, "T4": 1})
		if diff := cmp.Diff(map[string]float64{"A10": 1}, got); diff != "" {
			t.Errorf("half of the demand, each pod %d cards, names half of the cards: pressure (-want +got):\n%s", cards, diff)
		}
	}
}

func BenchmarkWaste(b *testing.B) {
	demand := fragmentation.Demand{}
	random := rand.New(rand.NewSource(1))
	for range 200 {
		demand[fragmentation.Class{Cards: 1, Share: 10 * (1 + random.Int63n(100)), MilliCPU: 1000 + random.Int63n(20_000), MemoryMiB: 1 + random.Int63n(90_000)}] = 5
	}
	model := fragmentation.NewModel(demand, 0)
	node := fragmentation.Node{Free: 5400, MilliCPU: 40_000, MemoryMiB: 200_000, Cards: 8, Unused: 5}
	class := fragmentation.Class{Cards: 1, Share: 470, MilliCPU: 8000, MemoryMiB: 8192}
	b.ReportAllocs()
	for b.Loop() {
		fragmentation.ScoreOfWaste(model.PodWaste(&node, &class, fragmentation.After{Free: 4900}))
	}
}

func BenchmarkNewModel(b *testing.B) {
	random := rand.New(rand.NewSource(1))
	demand := fragmentation.Demand{}
	for range 1000 {
		demand[fragmentation.Class{Cards: 1, Share: 1 + random.Int63n(1000), MilliCPU: random.Int63n(90_000), MemoryMiB: random.Int63n(90_000)}] = 1 + random.Int63n(99)
	}
	for b.Loop() {
		fragmentation.NewModel(demand, 0)
	}
}

package forecast

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/survival"
)

var someone = survival.Job{Namespace: "team", User: "ada", GPUs: 1}

// lasts is known to end after a time.
func lasts(d time.Duration) survival.Distribution {
	return (*survival.History)(nil).RemainingTime(someone, 0, d)
}

// between is as likely to end at each minute from one to another.
func between(from, to int) survival.Distribution {
	h := &survival.History{}
	for m := from; m <= to; m++ {
		h.AddRun(someone, time.Duration(m)*time.Minute)
	}
	return h.RemainingTime(someone, 0, 0)
}

func gpus(n int64) Amounts { return Amounts{GPUs: n} }

func runs(node int, n int64, ends survival.Distribution) Running {
	return Running{Holds: []Hold{{node, gpus(n)}}, Ends: []survival.Distribution{ends}}
}

// pods is a shape of so many pods of so many GPUs.
func pods(count int, n int64) Shape {
	return Shape{Pods: slices.Repeat([]Pod{{Needs: gpus(n)}}, count)}
}

func TestStarts(t *testing.T) {
	hour := lasts(time.Hour)
	full := []Amounts{gpus(0), gpus(0)}
	tests := map[string]struct {
		state State
		want  [][2]int // minutes, -1 where it is not known
	}{
		"there is room": {State{Free: []Amounts{gpus(8)}, Shapes: []Shape{pods(1, 8)}, Waiting: []Waiting{{0, hour}}}, [][2]int{{0, 0}}},
		"it is known when there is": {State{Free: full, Running: []Running{runs(0, 8, hour)}, Shapes: []Shape{pods(1, 8)}, Waiting: []Waiting{{0, hour}, {0, hour}}},
			[][2]int{{60, 60}, {120, 120}}},
		"it is not": {State{Free: full, Running: []Running{runs(0, 8, survival.Distribution{})}, Shapes: []Shape{pods(1, 8)}, Waiting: []Waiting{{0, hour}}}, [][2]int{{-1, -1}}},
		"who is first runs for an unknown time": {State{Free: full, Running: []Running{runs(0, 8, hour)}, Shapes: []Shape{pods(1, 8)},
			Waiting: []Waiting{{0, survival.Distribution{}}, {0, hour}}}, [][2]int{{60, 60}, {-1, -1}}},
		"the last of several leaves": {State{Free: full, Running: []Running{{[]Hold{{0, gpus(8)}}, nil, []survival.Distribution{lasts(time.Minute), hour}}}, Shapes: []Shape{pods(1, 8)},
			Waiting: []Waiting{{0, hour}}}, [][2]int{{60, 60}}},
		"one of two leaves": {State{Free: full, Running: []Running{runs(0, 8, survival.Distribution{}), runs(1, 8, hour)}, Shapes: []Shape{pods(1, 8)},
			Waiting: []Waiting{{0, hour}}}, [][2]int{{60, 60}}},
		"both have to leave": {State{Free: full, Running: []Running{runs(0, 8, lasts(2*time.Hour)), runs(1, 8, hour)}, Shapes: []Shape{pods(2, 8), pods(1, 4)},
			Waiting: []Waiting{{0, hour}, {1, lasts(30 * time.Minute)}}}, [][2]int{{120, 120}, {60, 60}}},
		"who fits beside goes first": {State{Free: []Amounts{gpus(4)}, Running: []Running{runs(0, 4, hour)}, Shapes: []Shape{pods(1, 8), pods(1, 4)},
			Waiting: []Waiting{{0, hour}, {1, lasts(2 * time.Hour)}}}, [][2]int{{120, 120}, {0, 0}}},
		"another node is closed to it": {State{Free: full, Running: []Running{runs(0, 8, lasts(time.Minute)), runs(1, 8, hour)},
			Shapes: []Shape{{Pods: []Pod{{gpus(8), second(t)}}}}, Waiting: []Waiting{{0, hour}}}, [][2]int{{60, 60}}},
		"memory is what is short": {State{Free: []Amounts{{8, 0, 10}}, Running: []Running{{[]Hold{{0, Amounts{0, 0, 10}}}, nil, []survival.Distribution{hour}}},
			Shapes: []Shape{{Pods: []Pod{{Amounts{1, 0, 20}, nil}}}}, Waiting: []Waiting{{0, hour}}}, [][2]int{{60, 60}}},
		"more than there is":       {State{Free: []Amounts{gpus(8)}, Shapes: []Shape{pods(1, 9), pods(1, 1)}, Waiting: []Waiting{{0, hour}, {1, hour}}}, [][2]int{{-1, -1}, {0, 0}}},
		"it may end at any minute": {State{Free: full, Running: []Running{runs(0, 8, between(1, 100))}, Shapes: []Shape{pods(1, 8)}, Waiting: []Waiting{{0, hour}}}, [][2]int{{5, 95}}},
		"nodes of many GPUs": {State{Free: []Amounts{gpus(40)}, Running: []Running{runs(0, 24, hour)}, Shapes: []Shape{pods(1, 20), pods(2, 30)},
			Waiting: []Waiting{{0, lasts(2 * time.Hour)}, {1, hour}}}, [][2]int{{0, 0}, {120, 120}}},
		"a quota is used up": {State{Free: []Amounts{gpus(16)}, Quotas: []int64{2}, Running: []Running{{Shares: []Share{{0, 6}}, Ends: []survival.Distribution{hour}}},
			Shapes: []Shape{{Pods: pods(1, 8).Pods, Shares: []Share{{0, 8}}}, pods(1, 8)}, Waiting: []Waiting{{0, hour}, {1, hour}}}, [][2]int{{60, 60}, {0, 0}}},
		"the one before it uses it up": {State{Free: []Amounts{gpus(16)}, Quotas: []int64{8},
			Shapes: []Shape{{Pods: pods(1, 8).Pods, Shares: []Share{{0, 8}}}}, Waiting: []Waiting{{0, hour}, {0, hour}}}, [][2]int{{0, 0}, {60, 60}}},
		"a quota is too small": {State{Free: []Amounts{gpus(16)}, Quotas: []int64{4}, Shapes: []Shape{{Pods: pods(1, 8).Pods, Shares: []Share{{0, 8}}}},
			Waiting: []Waiting{{0, hour}}}, [][2]int{{-1, -1}}},
		"nobody waits": {State{Free: full}, [][2]int{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := [][2]int{}
			for _, interval := range StartIntervals(&tc.state, len(tc.state.Waiting), Budget) {
				if !interval.Known {
					got = append(got, [2]int{-1, -1})
					continue
				}
				got = append(got, [2]int{int(interval.Earliest.Minutes()), int(interval.Latest.Minutes())})
			}
			near := cmp.Comparer(func(a, b int) bool { return max(a-b, b-a) <= 4 && (a < 0) == (b < 0) }) // a hundred plays
			if diff := cmp.Diff(tc.want, got, near); diff != "" {
				t.Errorf("they start (-want +got):\n%s", diff)
			}
		})
	}
}

func second(t *testing.T) *Nodes {
	t.Helper()
	nodes := NewNodes(2)
	nodes.Add(1)
	return nodes
}

// TestAPlayIsAsIfEachWereTried plays clusters by chance, and the same by looking at everybody and every node each time.
func TestAPlayIsAsIfEachWereTried(t *testing.T) {
	for seed := range uint64(300) {
		state := someState(rand.New(rand.NewPCG(seed, 7)))
		p := newSimulation(state, Budget)
		got := p.simulateStarts(rand.New(rand.NewPCG(seed, 1)), len(state.Waiting)-1)
		if diff := cmp.Diff(plainly(state, rand.New(rand.NewPCG(seed, 1))), got); diff != "" {
			t.Fatalf("seed %d: they start (-each tried +played):\n%s", seed, diff)
		}
		for node, free := range p.free {
			if slices.Min(free[:]) < 0 {
				t.Fatalf("seed %d: node %d has %v free", seed, node, free)
			}
		}
	}
}

func someState(rng *rand.Rand) *State {
	s := &State{}
	for range 1 + rng.IntN(70) {
		s.Free = append(s.Free, Amounts{rng.Int64N(9), 10, rng.Int64N(20)})
	}
	ends := func() survival.Distribution {
		if rng.IntN(10) == 0 {
			return survival.Distribution{}
		}
		return between(rng.IntN(50), 50+rng.IntN(100))
	}
	for range rng.IntN(3) {
		s.Quotas = append(s.Quotas, rng.Int64N(30)-3)
	}
	shares := func() (out []Share) {
		for quota := range s.Quotas {
			if rng.IntN(2) == 0 {
				out = append(out, Share{quota, rng.Int64N(20)})
			}
		}
		return out
	}
	for range rng.IntN(40) {
		run := Running{Shares: shares()}
		for range 1 + rng.IntN(2) {
			run.Ends = append(run.Ends, ends())
		}
		for range 1 + rng.IntN(3) {
			run.Holds = append(run.Holds, Hold{rng.IntN(len(s.Free)), Amounts{rng.Int64N(9), 1, rng.Int64N(9)}})
		}
		s.Running = append(s.Running, run)
	}
	for range 1 + rng.IntN(5) {
		shape := Shape{Shares: shares()}
		for range 1 + rng.IntN(4) {
			pod := Pod{Needs: Amounts{rng.Int64N(9), 1, rng.Int64N(9)}}
			if rng.IntN(2) == 0 {
				pod.On = NewNodes(len(s.Free))
				for node := range s.Free {
					if rng.IntN(2) == 0 {
						pod.On.Add(node)
					}
				}
			}
			shape.Pods = append(shape.Pods, pod)
		}
		s.Shapes = append(s.Shapes, shape)
	}
	for range 1 + rng.IntN(30) {
		s.Waiting = append(s.Waiting, Waiting{rng.IntN(len(s.Shapes)), ends()})
	}
	return s
}

// plainly plays without any index.
func plainly(s *State, rng *rand.Rand) []time.Duration {
	free := slices.Clone(s.Free)
	quotas := slices.Clone(s.Quotas)
	type held struct {
		at     time.Duration
		holds  []Hold
		shares []Share
	}
	var running []held
	luck := newLuck(rng)
	for _, run := range s.Running {
		at := time.Duration(0)
		for _, end := range run.Ends {
			at = max(at, end.Quantile(luck.nextQuantile()))
		}
		running = append(running, held{at, run.Holds, run.Shares})
	}
	starts, lasts := make([]time.Duration, len(s.Waiting)), make([]time.Duration, len(s.Waiting))
	for i, job := range s.Waiting {
		starts[i], lasts[i] = survival.Never, job.Runs.Quantile(luck.nextQuantile())
	}
	for now := time.Duration(0); now != survival.Never; {
		refused := map[int]bool{} // who asks the same is not tried again
		for i, job := range s.Waiting {
			if starts[i] != survival.Never || refused[job.Shape] {
				continue
			}
			tried, holds := slices.Clone(free), []Hold{}
			for _, pod := range s.Shapes[job.Shape].Pods {
				best := -1
				for node := range tried {
					fits := tried[node].canHold(&pod.Needs) && (pod.On == nil || pod.On.nextIn(node, nil) == node)
					if fits && (best < 0 || min(tried[node][GPUs], levels-1) < min(tried[best][GPUs], levels-1)) {
						best = node
					}
				}
				if best >= 0 {
					tried[best].addAmounts(&pod.Needs, -1)
					holds = append(holds, Hold{best, pod.Needs})
				}
			}
			shares := s.Shapes[job.Shape].Shares
			allowed := !slices.ContainsFunc(shares, func(s Share) bool { return s.Amount > quotas[s.Quota] })
			if allowed && len(holds) == len(s.Shapes[job.Shape].Pods) {
				starts[i], free = now, tried
				for _, share := range shares {
					quotas[share.Quota] -= share.Amount
				}
				end := survival.Never
				if lasts[i] != survival.Never {
					end = now + lasts[i]
				}
				running = append(running, held{end, holds, shares})
			}
			refused[job.Shape] = starts[i] == survival.Never
		}
		next := survival.Never
		for _, run := range running {
			next = min(next, run.at)
		}
		now = next
		running = slices.DeleteFunc(running, func(run held) bool {
			if run.at != next || next == survival.Never {
				return false
			}
			for i := range run.holds {
				free[run.holds[i].Node].addAmounts(&run.holds[i].Amounts, 1)
			}
			for _, share := range run.shares {
				quotas[share.Quota] += share.Amount
			}
			return true
		})
	}
	return starts
}

// TestLuck: each share of it is as likely as any other, and jobs of a play go together.
func TestLuck(t *testing.T) {
	const plays = 20000
	var low, both int
	for i := range uint64(plays) {
		luck := newLuck(rand.New(rand.NewPCG(i, 1)))
		one, other := luck.nextQuantile(), luck.nextQuantile()
		if one < 0.1 {
			low++
			if other < 0.1 {
				both++
			}
		}
	}
	if share := float64(low) / plays; share < 0.09 || share > 0.11 {
		t.Errorf("%.3f have the luck of one in ten", share)
	}
	if share := float64(both) / float64(low); share < 0.2 || share > 0.3 {
		t.Errorf("of those %.3f are in a play with another, want more than chance would have, 0.1", share)
	}
}

// TestTheCostIsBounded: nothing is said where there is no time to find out, and the same each time.
func TestTheCostIsBounded(t *testing.T) {
	state := someState(rand.New(rand.NewPCG(1, 1)))
	for _, interval := range StartIntervals(state, len(state.Waiting), 1) {
		if interval.Known {
			t.Errorf("with a budget of one step it is known: %+v", interval)
		}
	}
	if diff := cmp.Diff(StartIntervals(state, len(state.Waiting), Budget), StartIntervals(state, len(state.Waiting), Budget)); diff != "" {
		t.Errorf("the same state again: %s", diff)
	}
	if got := StartIntervals(state, 0, Budget); len(got) != 1 {
		t.Errorf("of the first alone %d intervals", len(got))
	}
}

// BenchmarkStarts has a line of a thousand jobs for a thousand full nodes with eight jobs each.
func BenchmarkStarts(b *testing.B) {
	state := &State{Shapes: []Shape{pods(1, 1), pods(1, 2), pods(1, 4), pods(1, 8), pods(4, 8), pods(64, 8)}}
	ends := between(1, 100)
	for node := range 1000 {
		state.Free = append(state.Free, gpus(0))
		for range 8 {
			state.Running = append(state.Running, runs(node, 1, ends))
		}
	}
	for i := range 1000 {
		state.Waiting = append(state.Waiting, Waiting{i % len(state.Shapes), ends})
	}
	for b.Loop() {
		StartIntervals(state, len(state.Waiting), Budget)
	}
}

package backpressure

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestTheGateOpensWhenABindingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		first := g.BeginBinding()
		g.WaitUntilOpen() // room for one more
		second := g.BeginBinding()
		g.BeginBinding() // what is decided is bound, also beyond the limit
		passed := false
		var waiting sync.WaitGroup
		waiting.Go(func() {
			g.WaitUntilOpen()
			passed = true
		})
		synctest.Wait()
		first()
		synctest.Wait()
		if passed {
			t.Error("the gate is open with 2 of 2 bindings under way")
		}
		second()
		waiting.Wait()
	})
}

// TestTheGateOpensWhenAQuarterOfAGangIsBound, and when the next one is bound beside the rest of it, a quarter of all those.
func TestTheGateOpensWhenAQuarterOfAGangIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		var underway []func()
		begin := func(times int) {
			for range times {
				underway = append(underway, g.BeginBinding())
			}
		}
		end := func() {
			last := underway[len(underway)-1]
			underway = underway[:len(underway)-1]
			last()
		}
		opensAt := func(want int) {
			t.Helper()
			for ; len(underway) > 0; end() {
				if g.whenOpen() == nil {
					if len(underway) != want {
						t.Errorf("the gate opens at %d bindings, want %d", len(underway), want)
					}
					return
				}
			}
		}
		begin(20)
		opensAt(14)
		begin(20)
		opensAt(24)
		for len(underway) > 3 { // all is as at the beginning
			end()
		}
		begin(2)
		opensAt(3)
	})
}

func TestBindingsThatHangDoNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		end := g.BeginBinding()
		start := time.Now()
		g.WaitUntilOpen()
		if waited := time.Since(start); waited != MaxWait {
			t.Errorf("the next pod waits %v for a binding that hangs, want %v", waited, MaxWait)
		}
		end()
		g.WaitUntilOpen()
		if waited := time.Since(start); waited != MaxWait {
			t.Errorf("the gate is shut for %v after the binding ended", waited-MaxWait)
		}
	})
}

// flow has a scheduler decide upon so many pods, one after the other, of which the bindings take what took says of each, and returns
// how long that took.
func flow(g *Gate, pods int, took func(pod int) time.Duration) time.Duration {
	start := time.Now()
	for pod := range pods {
		g.WaitUntilOpen()
		end := g.BeginBinding()
		time.AfterFunc(took(pod), end)
		time.Sleep(200 * time.Microsecond) // to decide upon it
	}
	return time.Since(start)
}

// seen returns how many bindings are under way, and how many of them hang.
func seen(g *Gate) (underway, stuck int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.underway), g.stuck
}

// TestBindingsThatHangAreNotCounted: once it shows that they do not wait for others, all go on as without them. One pod in twenty is of a
// namespace whose webhook takes the 30 seconds that the API server gives it.
func TestBindingsThatHangAreNotCounted(t *testing.T) {
	const quick, slow = 10 * time.Millisecond, 30 * time.Second
	tests := map[string]struct{ hangs func(pod int) bool }{
		"all at the beginning": {func(pod int) bool { return pod < 40 }},
		"all in the middle":    {func(pod int) bool { return pod >= 1000 && pod < 1040 }},
		"one in twenty":        {func(pod int) bool { return pod < 2000 && pod%20 == 0 }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := flow(NewGate(128), 4000, func(int) time.Duration { return quick })
				time.Sleep(time.Minute)
				g := NewGate(128)
				beside := flow(g, 4000, func(pod int) time.Duration {
					if tc.hangs(pod) {
						return slow
					}
					return quick
				})
				t.Logf("%v, without those that hang %v", beside, free)
				if beside > free+8*time.Second {
					t.Errorf("4000 pods take %v, %v without those that hang", beside, free)
				}
				time.Sleep(time.Minute)
				if underway, stuck := seen(g); underway != 0 || stuck != 0 {
					t.Errorf("%d are under way after all ended, %d of them hang", underway, stuck)
				}
			})
		})
	}
}

// TestBindingsThatHangAreBounded: a namespace of which all pods hang has no more of them under way than are told apart, a full gate and
// those that pass it for the waits that it costs.
func TestBindingsThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 32
		g := NewGate(most)
		highest := 0
		flow(g, 3000, func(pod int) time.Duration {
			underway, _ := seen(g)
			highest = max(highest, underway)
			if pod%2 == 0 {
				return 30 * time.Second
			}
			return 5 * time.Millisecond
		})
		if bound := most + most + int(30*time.Second/MaxWait); highest > bound {
			t.Errorf("%d bindings are under way, want at most %d", highest, bound)
		}
		time.Sleep(time.Minute)
	})
}

// TestASlowServerIsNotOneThatHangs: bindings that all take long, also out of order by as many as are under way, hold up others.
func TestASlowServerIsNotOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(16)
		random := rand.New(rand.NewPCG(1, 2))
		flow(g, 2000, func(int) time.Duration {
			if _, stuck := seen(g); stuck > 0 {
				t.Fatalf("%d bindings are taken to hang", stuck)
			}
			return 20*time.Millisecond + time.Duration(random.Int64N(int64(60*time.Millisecond)))
		})
		time.Sleep(time.Minute)
	})
}

// TestTheLastOfAGangDoNotHang: its members are bound in any order, the last of them after all others, and after pods that came later.
func TestTheLastOfAGangDoNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, each = 512, 5 * time.Millisecond
		g := NewGate(16)
		for _, turn := range rand.New(rand.NewPCG(3, 4)).Perm(size) {
			time.AfterFunc(time.Duration(turn)*each, g.BeginBinding())
		}
		flow(g, 200, func(pod int) time.Duration {
			underway, stuck := seen(g)
			if stuck > 0 {
				t.Fatalf("%d members are taken to hang", stuck)
			}
			return time.Duration(underway) * each // it stands behind all that are under way
		})
		time.Sleep(time.Minute)
	})
}

// TestMetrics compares before and after, since a process has one gate and tests have several.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		before := shown(t, "gpu_scheduler_binding_wait_seconds").GetHistogram()
		first := g.BeginBinding()
		g.WaitUntilOpen() // at once, which does not count
		second := g.BeginBinding()
		if got := shown(t, "gpu_scheduler_bindings_in_flight").GetGauge().GetValue(); got != 2 {
			t.Errorf("%v bindings are shown, want 2", got)
		}
		time.AfterFunc(5*time.Millisecond, first)
		g.WaitUntilOpen()
		after := shown(t, "gpu_scheduler_binding_wait_seconds").GetHistogram()
		if after.GetSampleCount()-before.GetSampleCount() != 1 || math.Abs(after.GetSampleSum()-before.GetSampleSum()-0.005) > 1e-9 {
			t.Errorf("the wait of 5 ms makes %v of %v", after, before)
		}
		second()
		if got := shown(t, "gpu_scheduler_bindings_overtaken").GetGauge().GetValue(); got != 0 {
			t.Errorf("%v bindings are shown as overtaken", got)
		}
		if got := shown(t, "gpu_scheduler_bindings_limit").GetGauge().GetValue(); got != 2 {
			t.Errorf("a limit of %v is shown, want 2", got)
		}
		if got := shown(t, "gpu_scheduler_bindings_in_flight").GetGauge().GetValue(); got != 0 {
			t.Errorf("%v bindings are shown after all ended", got)
		}
	})
}

// shown returns the one value of a metric of the scheduler's /metrics.
func shown(t *testing.T, name string) *dto.Metric {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestNoGateIsOpen(*testing.T) {
	var g *Gate
	end := g.BeginBinding()
	g.WaitUntilOpen()
	end()
	NewGate(0).WaitUntilOpen() // a limit of none would never open
}

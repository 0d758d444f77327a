package backpressure

import (
	"math"
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
		g.Begin()
		g.Wait() // room for one more
		g.Begin()
		g.Begin() // what is decided is bound, also beyond the limit
		passed := false
		var waiting sync.WaitGroup
		waiting.Go(func() {
			g.Wait()
			passed = true
		})
		synctest.Wait()
		g.End()
		synctest.Wait()
		if passed {
			t.Error("the gate is open with 2 of 2 bindings under way")
		}
		g.End()
		waiting.Wait()
	})
}

// TestTheGateOpensWhenAQuarterOfAGangIsBound, and when the next one is bound beside the rest of it, a quarter of all those.
func TestTheGateOpensWhenAQuarterOfAGangIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		change := func(by func(), times int) {
			for range times {
				by()
			}
		}
		opensAt := func(underway, want int) {
			t.Helper()
			for at := underway; ; at-- {
				if g.whenOpen() == nil {
					if at != want {
						t.Errorf("the gate opens at %d of %d bindings, want %d", at, underway, want)
					}
					return
				}
				g.End()
			}
		}
		change(g.Begin, 20)
		opensAt(20, 14)
		change(g.Begin, 20)
		opensAt(34, 24)
		change(g.End, 21) // 3 are left: all is as at the beginning
		change(g.Begin, 2)
		opensAt(5, 3)
	})
}

func TestBindingsThatHangDoNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		g.Begin()
		start := time.Now()
		g.Wait()
		if waited := time.Since(start); waited != MaxWait {
			t.Errorf("the next pod waits %v for a binding that hangs, want %v", waited, MaxWait)
		}
		g.End()
		g.Wait()
		if waited := time.Since(start); waited != MaxWait {
			t.Errorf("the gate is shut for %v after the binding ended", waited-MaxWait)
		}
	})
}

// TestMetrics compares before and after, since a process has one gate and tests have several.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		before := shown(t, "gpu_scheduler_binding_wait_seconds").GetHistogram()
		g.Begin()
		g.Wait() // at once, which does not count
		g.Begin()
		if got := shown(t, "gpu_scheduler_bindings_in_flight").GetGauge().GetValue(); got != 2 {
			t.Errorf("%v bindings are shown, want 2", got)
		}
		time.AfterFunc(5*time.Millisecond, g.End)
		g.Wait()
		after := shown(t, "gpu_scheduler_binding_wait_seconds").GetHistogram()
		if after.GetSampleCount()-before.GetSampleCount() != 1 || math.Abs(after.GetSampleSum()-before.GetSampleSum()-0.005) > 1e-9 {
			t.Errorf("the wait of 5 ms makes %v of %v", after, before)
		}
		g.End()
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
	g.Begin()
	g.Wait()
	g.End()
	NewGate(0).Wait() // a limit of none would never open
}

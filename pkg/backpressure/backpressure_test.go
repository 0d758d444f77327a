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
		first := g.Begin()
		g.Wait() // room for one more
		second := g.Begin()
		g.Begin() // what is decided is bound, also beyond the limit
		passed := false
		var waiting sync.WaitGroup
		waiting.Go(func() {
			g.Wait()
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
				underway = append(underway, g.Begin())
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
		end := g.Begin()
		start := time.Now()
		g.Wait()
		if waited := time.Since(start); waited != MaxWait {
			t.Errorf("the next pod waits %v for a binding that hangs, want %v", waited, MaxWait)
		}
		end()
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
		first := g.Begin()
		g.Wait() // at once, which does not count
		second := g.Begin()
		if got := shown(t, "gpu_scheduler_bindings_in_flight").GetGauge().GetValue(); got != 2 {
			t.Errorf("%v bindings are shown, want 2", got)
		}
		time.AfterFunc(5*time.Millisecond, first)
		g.Wait()
		after := shown(t, "gpu_scheduler_binding_wait_seconds").GetHistogram()
		if after.GetSampleCount()-before.GetSampleCount() != 1 || math.Abs(after.GetSampleSum()-before.GetSampleSum()-0.005) > 1e-9 {
			t.Errorf("the wait of 5 ms makes %v of %v", after, before)
		}
		second()
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
	end := g.Begin()
	g.Wait()
	end()
	NewGate(0).Wait() // a limit of none would never open
}

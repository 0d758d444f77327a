package plugins_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestAllThatWaitAreTriedAgain once each, within five minutes or as long as their attempts need, and never many of them at once.
func TestAllThatWaitAreTriedAgain(t *testing.T) {
	const pods, period = 2000, 5 * time.Minute
	for attempt, turn := range map[time.Duration]time.Duration{
		time.Millisecond:      period,
		60 * time.Millisecond: 50 * time.Minute, // 2,000 times 60 ms are 2 minutes, of which it may take a twenty-fifth
	} {
		t.Run(attempt.String(), func(t *testing.T) {
			l := newLoop(t, nil)
			for i := range pods {
				l.comes(fmt.Sprint("ns/", i))
			}
			upstream.TurnAway(t, l.scheduler.SchedulingQueue, pods, gpufilter.Name)
			waiting := func() int { return len(l.scheduler.SchedulingQueue.UnschedulablePods()) }
			if waiting() != pods {
				t.Fatalf("%d pods wait, want %d", waiting(), pods)
			}
			clock := testclock.NewFakeClock(time.Now())
			tick := plugins.Retry(l.scheduler, clock, period, attempt)
			tick() // counts them
			each := pods * plugins.RetryTick.Seconds() / turn.Seconds()
			began, tried, most := clock.Now(), map[string]int{}, 0
			for clock.Since(began) < turn {
				clock.Step(plugins.RetryTick)
				tick()
				now := pods - waiting()
				most = max(most, now)
				for range now {
					tried[l.tries()]++
				}
			}
			if len(tried) != pods {
				t.Errorf("%d of %d pods were tried again within %s", len(tried), pods, turn)
			}
			for name, times := range tried {
				if times != 1 {
					t.Errorf("%s was tried %d times", name, times)
				}
			}
			if float64(most) > each+5*math.Sqrt(each) {
				t.Errorf("%d pods are tried again at once, want some %.0f", most, each)
			}
		})
	}
}

// TestRetriesGoOnAfterAPause of the process, for a minute or for hours: each pod that is due is tried once.
func TestRetriesGoOnAfterAPause(t *testing.T) {
	for _, pause := range []time.Duration{time.Minute, 5 * time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			l := newLoop(t, nil)
			const pods = 500
			for i := range pods {
				l.comes(fmt.Sprint("ns/", i))
			}
			upstream.TurnAway(t, l.scheduler.SchedulingQueue, pods, gpufilter.Name)
			clock := testclock.NewFakeClock(time.Now())
			tick := plugins.Retry(l.scheduler, clock, 5*time.Minute, time.Millisecond)
			clock.Step(pause)
			tick()
			tried := pods - len(l.scheduler.SchedulingQueue.UnschedulablePods())
			want := min(pods, float64(pods)*pause.Minutes()/5)
			if math.Abs(float64(tried)-want) > 5*math.Sqrt(want) {
				t.Errorf("%d of %d pods are tried again after %s, want some %.0f", tried, pods, pause, want)
			}
		})
	}
}

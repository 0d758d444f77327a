package plugins_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

const retryPeriod = 5 * time.Minute

// waitingPods has pods wait that were tried a millisecond after each other, and returns them, with what tries them again.
func waitingPods(t *testing.T, count int, attempt time.Duration) (*loop, []*corev1.Pod, plugins.Retries, *testclock.FakeClock) {
	t.Helper()
	l, clock := newLoop(t, nil), testclock.NewFakeClock(time.Now())
	again := plugins.NewRetries(l.scheduler, clock, retryPeriod, attempt)
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = l.comes(fmt.Sprint("ns/", i))
		again.Waits(pods[i])
		clock.Step(time.Millisecond)
	}
	upstream.TurnAway(t, l.scheduler.SchedulingQueue, count, gpufilter.Name)
	if waiting := l.waiting(); waiting != count {
		t.Fatalf("%d pods wait, want %d", waiting, count)
	}
	return l, pods, again, clock
}

// waiting is how many pods wait for something to change.
func (l *loop) waiting() int { return len(l.scheduler.SchedulingQueue.UnschedulablePods()) }

// TestAllThatWaitAreTriedAgain once each, not before they have waited for five minutes, in the order in which they were tried last, and no more at a
// time than take a twenty-fifth of it.
func TestAllThatWaitAreTriedAgain(t *testing.T) {
	const count = 2000
	for attempt, each := range map[time.Duration]int{
		0:                     count,
		time.Millisecond:      400,
		60 * time.Millisecond: 6,
		time.Minute:           1,
	} {
		t.Run(attempt.String(), func(t *testing.T) {
			l, pods, again, clock := waitingPods(t, count, attempt)
			clock.Step(retryPeriod - 2*count*time.Millisecond)
			if again.Tick(); l.waiting() != count {
				t.Fatalf("%d pods are tried again before they have waited for %s", count-l.waiting(), retryPeriod)
			}
			clock.Step(2 * count * time.Millisecond)
			var tried []string
			for range min(count/each, 40) {
				again.Tick()
				now := count - l.waiting()
				if now != each {
					t.Fatalf("%d pods are tried again in a tick, want %d", now, each)
				}
				for range now {
					name := l.tries()
					tried = append(tried, name)
					again.Waits(pods[slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Namespace+"/"+pod.Name == name })])
				}
				clock.Step(plugins.RetryTick)
			}
			slices.Sort(tried)
			if again := len(tried) - len(slices.Compact(tried)); again > 0 {
				t.Errorf("%d pods are tried twice before others are once", again)
			}
		})
	}
}

// TestWhoIsNotTriedAgain: one that was tried just now, and one that has gone.
func TestWhoIsNotTriedAgain(t *testing.T) {
	l, pods, again, clock := waitingPods(t, 3, time.Millisecond)
	clock.Step(retryPeriod)
	again.Waits(pods[0])
	again.Forget(pods[1])
	if again.Tick(); l.waiting() != 2 {
		t.Errorf("%d pods are tried again, want the one that has waited", 3-l.waiting())
	}
}

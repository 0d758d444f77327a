package plugins_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testclock "k8s.io/utils/clock/testing"

	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

const retryPeriod = 5 * time.Minute

// retried is a cluster whose pods wait, and are tried again by a clock of the test.
type retried struct {
	*cluster
	testing.TB
	clock    *testclock.FakeClock
	retryDue func()
	// idle has the queue give out no pod.
	idle bool
}

// newRetried has pods wait that came a millisecond after each other.
func newRetried(t *testing.T, pods int) *retried {
	t.Helper()
	r := &retried{cluster: newCluster(t, gpuNode("a", "pcie")), TB: t, clock: testclock.NewFakeClock(time.Now())}
	next := r.scheduler.NextEntity
	r.scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if r.idle {
			return nil, nil //nolint:nilnil // as kube-scheduler's does when the queue is closed
		}
		return next(logger)
	}
	r.retryDue = plugins.FollowRetries(r.scheduler, r.clock, retryPeriod)
	for i := range pods {
		wrapped := pod(fmt.Sprint(i), "1", "1").Namespace("ns")
		wrapped.Obj().UID = types.UID(fmt.Sprint("uid-", i))
		upstream.Add(r.scheduler.SchedulingQueue, r.known(wrapped, ""))
		r.clock.Step(time.Millisecond)
	}
	upstream.TurnAway(t, r.scheduler.SchedulingQueue, pods, gpufilter.Name)
	if waiting := r.waiting(); waiting != pods {
		t.Fatalf("%d pods wait, want %d", waiting, pods)
	}
	return r
}

// waiting is how many pods wait for an event.
func (r *retried) waiting() int { return len(r.scheduler.SchedulingQueue.UnschedulablePods()) }

// try tries the next pod in vain for some time, and returns its name. Then the loop asks for the next one, and gets none.
func (r *retried) try(took time.Duration) string {
	r.Helper()
	taken := upstream.Take(r.TB, r.scheduler.NextEntity)
	r.clock.Step(took)
	upstream.PutBack(r.TB, r.scheduler.SchedulingQueue, taken, gpufilter.Name)
	r.idle = true
	if _, err := r.scheduler.NextEntity(klog.Background()); err != nil {
		r.Fatal(err)
	}
	r.idle = false
	return taken.Pod().Name
}

// TestPodsThatWaitAreTriedAgain once each, not before they have waited for five minutes, and for a twenty-fifth of the loop's time whatever an
// attempt takes: also where it takes a hundred times as long as those before.
func TestPodsThatWaitAreTriedAgain(t *testing.T) {
	const pods, ticks = 2000, 200
	for name, cost := range map[string]func(attempt int) time.Duration{
		"nothing":                   func(int) time.Duration { return 0 },
		"2 ms":                      func(int) time.Duration { return 2 * time.Millisecond },
		"longer than the allowance": func(int) time.Duration { return 2 * plugins.RetryAllowance },
		"little first, then 100 times": func(attempt int) time.Duration {
			return []time.Duration{time.Millisecond, 100 * time.Millisecond}[attempt/1000%2]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetried(t, pods)
			r.clock.Step(retryPeriod - 2*pods*time.Millisecond)
			if r.retryDue(); r.waiting() != pods {
				t.Fatalf("%d pods are tried again before they have waited for %s", pods-r.waiting(), retryPeriod)
			}
			r.clock.Step(2 * pods * time.Millisecond)
			times, attempts := map[string]int{}, 0
			var spent, longest time.Duration
			for tick := 1; tick <= ticks && len(times) < pods; tick++ {
				r.retryDue()
				due := pods - r.waiting()
				if due > plugins.MostRetries {
					t.Fatalf("%d pods are moved at once, want %d at most", due, plugins.MostRetries)
				}
				began := r.clock.Now()
				for range due {
					took := cost(attempts)
					times[r.try(took)]++
					attempts, spent, longest = attempts+1, spent+took, max(longest, took)
				}
				// An overdraft is that of one tick, whose pods seemed to cost less.
				overdraft := max(longest, plugins.MostRetries*longest)
				if limit := time.Duration(tick)*plugins.RetryAllowance + overdraft; spent > limit {
					t.Fatalf("attempts have taken %s in %d ticks, want %s at most", spent, tick, limit)
				}
				r.clock.Step(max(0, plugins.RetryTick-r.clock.Since(began)))
			}
			if attempts == 0 {
				t.Fatal("no pod is tried again")
			}
			for name, count := range times {
				if count > 1 && len(times) < pods {
					t.Errorf("pod %s is tried %d times before others are once", name, count)
				}
			}
			if cost(0) <= 2*time.Millisecond && cost(1500) <= 2*time.Millisecond && len(times) < pods {
				t.Errorf("%d of %d pods are tried again in %d ticks", len(times), pods, ticks)
			}
		})
	}
}

// TestPodsThatAreNotTriedAgain: one that was tried for an event, and one that has gone.
func TestPodsThatAreNotTriedAgain(t *testing.T) {
	r := newRetried(t, 3)
	r.clock.Step(retryPeriod)
	waiting := r.scheduler.SchedulingQueue.UnschedulablePods()
	upstream.Activate(r.scheduler.SchedulingQueue, waiting[0])
	r.try(time.Millisecond)
	upstream.Delete(r.scheduler.SchedulingQueue, waiting[1])
	if r.retryDue(); r.waiting() != 1 {
		t.Errorf("%d pods wait on, want the one that was tried just now", r.waiting())
	}
}

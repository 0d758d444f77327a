package plugins

import (
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"
)

// What tests reach that have a whole scheduler, and no clock to wait for.
var (
	Release      = release
	Tell         = tell
	FirstOfGangs = firstOfGangs
)

// ManyNodes is manyNodes.
const ManyNodes = manyNodes

// TakeTurns has the namespaces of a scheduler take turns by a clock of the test.
func TakeTurns(sched *scheduler.Scheduler, now func() time.Time) nextEntity {
	t := turnsOf(sched, 0)
	t.now = now
	return inTurns(t, sched.NextEntity, func(next nextEntity) nextEntity { return next })
}

// RetryTick is retryTick, RetryShare retryShare.
const (
	RetryTick  = retryTick
	RetryShare = retryShare
)

// Retry returns what has the pods of a scheduler's queue tried again that are due, by a clock of the test and if an attempt takes so long.
func Retry(sched *scheduler.Scheduler, clock clock.PassiveClock, period, attempt time.Duration) (tick func()) {
	r := &retries{queue: sched.SchedulingQueue, clock: clock, period: period, at: clock.Now()}
	r.attempt.Store(int64(attempt))
	return func() { r.tick(klog.Background()) }
}

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
	t := turnsOf(sched)
	t.now = now
	return inTurns(t, sched.NextEntity, func(next nextEntity) nextEntity { return next })
}

// What bounds retries.
const (
	RetryTick      = retryTick
	RetryAllowance = retryAllowance
	MostRetries    = mostRetries
	FirstRetryCost = firstRetryCost
)

// FollowRetries has the pods of a scheduler tried again by a clock of the test, those that are due whenever it calls retryDue.
func FollowRetries(sched *scheduler.Scheduler, clock clock.PassiveClock, period time.Duration) (retryDue func()) {
	r := newRetries(sched.SchedulingQueue, clock, period)
	r.wrap(sched)
	return func() { r.retryDue(klog.Background()) }
}

// JudgesNodes reports whether a plugin of that name is taken to depend on one node alone.
func JudgesNodes(plugin string) bool { return judgesNodes.Has(plugin) }

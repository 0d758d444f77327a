package plugins

import (
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"
)

// What tests reach that have a whole scheduler, and no clock to wait for.
var (
	Release      = requeueReleased
	Tell         = requeueForNodes
	FirstOfGangs = gangRepresentative
	IsVerdict    = isVerdict
)

// ManyNodes is maxNodeEvents.
const ManyNodes = maxNodeEvents

// TakeTurns has the namespaces of a scheduler take turns by a clock of the test.
func TakeTurns(sched *scheduler.Scheduler, now func() time.Time) nextEntity {
	t := newFairQueue(sched)
	t.now = now
	return takeInTurns(t, sched.NextEntity, func(next nextEntity) nextEntity { return next })
}

// What bounds retries.
const (
	RetryTick      = retryTick
	RetryAllowance = retryAllowance
	MostRetries    = maxRetries
	FirstRetryCost = firstRetryCost
)

// FollowRetries has the pods of a scheduler tried again by a clock of the test, those that are due whenever it calls retryDue.
func FollowRetries(sched *scheduler.Scheduler, clock clock.PassiveClock, period time.Duration) (retryDue func()) {
	r := newRetries(sched.SchedulingQueue, clock, period)
	r.wrapScheduler(sched)
	return func() { r.retryDue(klog.Background()) }
}

// JudgesNodes reports whether a plugin of that name is taken to depend on one node alone.
func JudgesNodes(plugin string) bool { return nodeLocalPlugins.Has(plugin) }

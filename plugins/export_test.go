package plugins

import (
	"time"

	corev1 "k8s.io/api/core/v1"
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

// Retries have the pods of a queue tried again that are due, by a clock of the test.
type Retries struct{ *retries }

// NewRetries follows no queue: the test tells of pods that wait.
func NewRetries(sched *scheduler.Scheduler, clock clock.PassiveClock, period, attempt time.Duration) Retries {
	r := newRetries(sched.SchedulingQueue, clock, period)
	r.attempt.Store(int64(attempt))
	return Retries{r}
}

// Waits tells of a pod that waits, Forget of one that does no more.
func (r Retries) Waits(pod *corev1.Pod)  { r.waits(pod) }
func (r Retries) Forget(pod *corev1.Pod) { r.forget(pod) }

// Tick has the pods tried again that are due.
func (r Retries) Tick() { r.tick(klog.Background()) }

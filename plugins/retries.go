package plugins

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
)

const (
	// retryTick is how often some of the waiting pods are retried.
	retryTick = 10 * time.Second
	// retryAllowance is how much of the loop's time such attempts may take in each tick: a twenty-fifth.
	retryAllowance = retryTick / 25
	// maxRetries is how many pods are moved at a time. The queue is locked for some 20 µs for each.
	maxRetries = 500
	// firstRetryCost is the assumed cost of a retry before any was measured: that of an attempt of a pod with all possible constraints.
	firstRetryCost = 30 * time.Millisecond
	// retryCostWindow is the number of retries over which their time is averaged.
	retryCostWindow = 64
)

// retries retry each pod that has waited for some minutes without an event that could help it, in case the hint of a plugin is wrong.
// kube-scheduler moves all pods that have waited for five minutes at once, under one lock of its queue: 20,000 of one namespace hold up all
// others each time. Here the pods that have waited the longest go first. The time of their attempts is measured, and an overdraft of one tick is
// saved in the next ones.
type retries struct {
	queue queue.SchedulingQueue
	clock clock.PassiveClock
	// period is how long a pod waits at least.
	period time.Duration
	stop   chan struct{}
	// tried is the pod whose attempt is running, and began its start. Only the loop uses them.
	tried types.UID
	began time.Time

	mu sync.Mutex
	// waiting are the pods of the queue.
	waiting map[types.UID]waitingPod
	// cost is the mean time of a retry, and left is how much of the allowance remains, below 0 after an overdraft.
	cost, left time.Duration
}

// waitingPod is when a pod arrived or was last tried, and whether it is being retried now.
type waitingPod struct {
	since   time.Time
	retried bool
}

func newRetries(waiting queue.SchedulingQueue, clock clock.PassiveClock, period time.Duration) *retries {
	return &retries{
		queue: waiting, clock: clock, period: period, stop: make(chan struct{}), waiting: map[types.UID]waitingPod{}, cost: firstRetryCost,
	}
}

// wrapScheduler follows the queue and the loop of a scheduler.
func (r *retries) wrapScheduler(sched *scheduler.Scheduler) {
	sched.SchedulingQueue = retriedQueue{sched.SchedulingQueue, r}
	sched.NextEntity = r.timeAttempts(sched.NextEntity)
}

// timeAttempts measures the attempts of a loop: each ends when the next pod is asked for.
func (r *retries) timeAttempts(next nextEntity) nextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if r.tried != "" {
			r.chargeAttempt(r.tried, r.clock.Since(r.began))
		}
		entity, err := next(logger)
		r.tried, r.began = "", r.clock.Now()
		if info, ok := entity.(*framework.QueuedPodInfo); ok && err == nil && info != nil {
			r.tried = info.Pod.UID
		}
		return entity, err
	}
}

// chargeAttempt takes an attempt off the allowance if it was a retry.
func (r *retries) chargeAttempt(pod types.UID, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.waiting[pod]
	if !known.retried {
		return
	}
	r.left -= took
	r.cost += (took - r.cost) / retryCostWindow
	known.retried = false
	r.waiting[pod] = known
}

// recordWait records that a pod has arrived, or that its attempt has failed.
func (r *retries) recordWait(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.waiting[pod]
	known.since = r.clock.Now()
	r.waiting[pod] = known
}

// forgetPod forgets a pod that waits no longer.
func (r *retries) forgetPod(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, pod)
}

// retryDue moves the due pods. A pod whose running attempt fails is retried as well.
func (r *retries) retryDue(logger klog.Logger) {
	due := r.takeDue()
	if len(due) == 0 {
		return
	}
	r.queue.MoveAllToActiveOrBackoffQueue(logger, framework.EventUnschedulableTimeout, nil, nil, func(pod *corev1.Pod) bool { return due.Has(pod.UID) })
}

// takeDue returns the pods that have waited the longest, at least for the period, within the allowance. Their wait starts over.
func (r *retries) takeDue() sets.Set[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.left = min(r.left+retryAllowance, retryAllowance)
	if r.left <= 0 {
		return nil
	}
	var due []types.UID
	for pod, known := range r.waiting {
		if now.Sub(known.since) >= r.period {
			due = append(due, pod)
		}
	}
	slices.SortFunc(due, func(a, b types.UID) int {
		return cmp.Or(r.waiting[a].since.Compare(r.waiting[b].since), cmp.Compare(a, b))
	})
	due = due[:min(len(due), maxRetries, max(1, int(r.left/max(1, r.cost))))]
	for _, pod := range due {
		r.waiting[pod] = waitingPod{since: now, retried: true}
	}
	return sets.New(due...)
}

// retriedQueue is the queue of a scheduler whose pods are tried again by retries.
type retriedQueue struct {
	queue.SchedulingQueue
	retries *retries
}

// Run implements queue.SchedulingQueue.
func (q retriedQueue) Run(logger klog.Logger) {
	q.SchedulingQueue.Run(logger)
	go wait.Until(func() { q.retries.retryDue(logger) }, retryTick, q.retries.stop)
}

// Close implements queue.SchedulingQueue.
func (q retriedQueue) Close() {
	close(q.retries.stop)
	q.SchedulingQueue.Close()
}

// Add implements queue.SchedulingQueue.
func (q retriedQueue) Add(ctx context.Context, pod *corev1.Pod) {
	q.retries.recordWait(pod.UID)
	q.SchedulingQueue.Add(ctx, pod)
}

// AddUnschedulablePodIfNotPresent implements queue.SchedulingQueue.
func (q retriedQueue) AddUnschedulablePodIfNotPresent(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	q.retries.recordWait(info.Pod.UID)
	return q.SchedulingQueue.AddUnschedulablePodIfNotPresent(logger, info, cycle) //nolint:wrapcheck // it is in the queue's place
}

// Delete implements queue.SchedulingQueue.
func (q retriedQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.SchedulingQueue.Delete(logger, pod)
	q.retries.forgetPod(pod.UID)
}

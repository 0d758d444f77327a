package plugins

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
)

const (
	// retryTick is how often some of the pods that wait are tried again. A pod that is being placed then, and is not, is tried again as well.
	retryTick = 10 * time.Second
	// retryShare is the part of the loop's time that attempts may take for which nothing has changed.
	retryShare = 0.04
	// meanOver is over how many attempts their time is averaged.
	meanOver = 64
)

// retries have every pod that waits tried again after some minutes, though nothing has happened that a plugin says could help it: in case that
// one is wrong. kube-scheduler does so with all pods at once that have waited for five minutes, under one lock of its queue, and 20,000 of one
// namespace hold all others up each time. Here those that have waited the longest go first, and of them no more than fit in a part of the
// loop's time.
type retries struct {
	queue queue.SchedulingQueue
	clock clock.PassiveClock
	// period is for how long a pod waits at least; 0 leaves retries to kube-scheduler's queue.
	period time.Duration
	stop   chan struct{}
	// attempt is what an attempt takes on average, in nanoseconds. The loop writes it.
	attempt atomic.Int64

	mu sync.Mutex
	// since is when each pod of the queue came or was tried last.
	since map[types.UID]time.Time
}

func newRetries(waiting queue.SchedulingQueue, clock clock.PassiveClock, period time.Duration) *retries {
	return &retries{queue: waiting, clock: clock, period: period, stop: make(chan struct{}), since: map[types.UID]time.Time{}}
}

// run has pods tried again until the queue is closed.
func (r *retries) run(logger klog.Logger) {
	if r.period > 0 {
		go wait.Until(func() { r.tick(logger) }, retryTick, r.stop)
	}
}

// learn hears what an attempt has taken.
func (r *retries) learn(took time.Duration) {
	mean := r.attempt.Load()
	r.attempt.Store(mean + (int64(took)-mean)/meanOver)
}

// waits hears of a pod that has come, or was tried in vain.
func (r *retries) waits(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since[pod.UID] = r.clock.Now()
}

// forget hears of a pod that does not wait any more.
func (r *retries) forget(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, pod.UID)
}

// tick has the pods tried again that are due.
func (r *retries) tick(logger klog.Logger) {
	due := r.takeDue()
	if len(due) == 0 {
		return
	}
	r.queue.MoveAllToActiveOrBackoffQueue(logger, framework.EventUnschedulableTimeout, nil, nil, func(pod *corev1.Pod) bool { return due.Has(pod.UID) })
}

// takeDue returns the pods that have waited the longest of those that have for the period, as many as may be tried in a tick. They wait anew.
func (r *retries) takeDue() sets.Set[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var due []types.UID
	for pod, since := range r.since {
		if now.Sub(since) >= r.period {
			due = append(due, pod)
		}
	}
	slices.SortFunc(due, func(a, b types.UID) int { return cmp.Or(r.since[a].Compare(r.since[b]), cmp.Compare(a, b)) })
	due = due[:min(len(due), mostRetries(time.Duration(r.attempt.Load())))]
	for _, pod := range due {
		r.since[pod] = now
	}
	return sets.New(due...)
}

// mostRetries is how many pods may be tried again in a tick, if an attempt takes so long.
func mostRetries(attempt time.Duration) int {
	if attempt <= 0 {
		return math.MaxInt
	}
	return max(1, int(retryShare*float64(retryTick)/float64(attempt)))
}

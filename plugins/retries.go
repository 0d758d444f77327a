package plugins

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
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
// namespace hold all others up each time. Here each pod has its own place on a ring, by its UID, and a hand goes around: no pod's history is
// kept, and a tick moves no more pods than come one after the other. The more time all attempts would take, the slower it goes.
type retries struct {
	queue queue.SchedulingQueue
	clock clock.PassiveClock
	// period is for a turn of the hand at least; 0 leaves retries to kube-scheduler's queue.
	period time.Duration
	// attempt is what an attempt takes on average, in nanoseconds. The loop writes it.
	attempt atomic.Int64
	// hand is where on the ring the last tick ended, between 0 and 1, and at is when that was. waiting is how many pods it passed and left.
	hand    float64
	at      time.Time
	waiting int
	stop    chan struct{}
}

// run has pods tried again until the queue is closed.
func (r *retries) run(logger klog.Logger) {
	r.at = r.clock.Now()
	go wait.Until(func() { r.tick(logger) }, retryTick, r.stop)
}

// learn hears what an attempt has taken.
func (r *retries) learn(took time.Duration) {
	mean := r.attempt.Load()
	r.attempt.Store(mean + (int64(took)-mean)/meanOver)
}

// tick moves the hand on to where it belongs by now, and has the pods tried that it passes.
func (r *retries) tick(logger klog.Logger) {
	now := r.clock.Now()
	from, part := r.hand, min(1, float64(now.Sub(r.at))/float64(turnOfHand(r.period, r.waiting, time.Duration(r.attempt.Load()))))
	r.at, r.waiting = now, 0
	_, r.hand = math.Modf(from + part)
	r.queue.MoveAllToActiveOrBackoffQueue(logger, framework.EventUnschedulableTimeout, nil, nil, func(pod *corev1.Pod) bool {
		r.waiting++
		return passes(from, part, placeOnRing(pod))
	})
}

// turnOfHand is how long the hand takes for a turn: long enough that the attempts of all pods take no more than their share of the loop's time.
func turnOfHand(least time.Duration, waiting int, attempt time.Duration) time.Duration {
	return max(least, time.Duration(float64(waiting)*float64(attempt)/retryShare))
}

// passes reports whether a hand that goes a part of a turn from somewhere on passes a place.
func passes(from, part, place float64) bool {
	if part >= 1 {
		return true
	}
	_, ahead := math.Modf(place - from + 1)
	return ahead < part
}

var ringSeed = maphash.MakeSeed()

// placeOnRing is where a pod is on the ring, between 0 and 1.
func placeOnRing(pod *corev1.Pod) float64 {
	return float64(maphash.String(ringSeed, string(pod.UID))>>11) / (1 << 53)
}

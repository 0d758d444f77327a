package backfill

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/survival"
)

const (
	// quantile is the probability that a pod is gone by its expected end.
	quantile = 0.95
	// trust is for how long a job may have waited while other pods still use its reserved nodes based on expected ends. Pods that stay longer
	// than their predecessors delay the job; after this time no pod may do so. With a day, too many would wait for the few jobs that have waited
	// as long: docs/benchmarks/queueing.md has the cost.
	trust = 72 * time.Hour
	// mostExpected is for how many pods the expected end is remembered: more than there are on 20,000 nodes of 8 GPUs.
	mostExpected = 200_000
)

// expectations are the expected ends of pods without a deadline, based on earlier run times. The zero value expects nothing.
//
// An expected end holds until it is over: if it were computed anew at each look, a reservation would recede before its job. For a pod that lasts
// longer, it is computed again, among runs that have lasted as long.
type expectations struct {
	past atomic.Pointer[survival.History]

	mu   sync.Mutex
	ends map[types.UID]time.Time
}

// stay returns how long a pod that is placed now is expected to stay, false if unknown.
func (e *expectations) stay(pod *corev1.Pod, members int) (time.Duration, bool) {
	past := e.past.Load()
	if past == nil || !ends(pod) {
		return 0, false
	}
	runs := past.RemainingOwn(jobOf(pod, members), 0, 0).Quantile(quantile)
	return runs + reservation.Margin, runs < survival.Never-reservation.Margin
}

// gone returns when a pod on a node is expected to be gone, false if unknown.
func (e *expectations) gone(pod *corev1.Pod, members int, now time.Time) (time.Time, bool) {
	past := e.past.Load()
	if past == nil || !ends(pod) {
		return time.Time{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if end, said := e.ends[pod.UID]; said && end.After(now) {
		return end, true
	}
	delete(e.ends, pod.UID)
	var elapsed time.Duration
	if pod.Status.StartTime != nil {
		elapsed = now.Sub(pod.Status.StartTime.Time)
	}
	left := past.RemainingOwn(jobOf(pod, members), elapsed, 0).Quantile(quantile)
	if left == survival.Never {
		return time.Time{}, false
	}
	end := now.Add(max(left, time.Minute))
	e.remember(pod.UID, end, now)
	return end, true
}

// remember stores the end of a pod, and drops expired ones if there are too many.
func (e *expectations) remember(pod types.UID, end, now time.Time) {
	if len(e.ends) >= mostExpected {
		maps.DeleteFunc(e.ends, func(_ types.UID, end time.Time) bool { return !end.After(now) })
	}
	if e.ends == nil || len(e.ends) >= mostExpected {
		e.ends = map[types.UID]time.Time{}
	}
	e.ends[pod] = end
}

// ends reports whether a pod has GPUs and ends by itself, without a deadline. A service never ends.
func ends(pod *corev1.Pod) bool {
	once := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	request, _ := gpu.RequestOf(pod)
	return once && !request.IsZero() && pod.Spec.ActiveDeadlineSeconds == nil && pod.DeletionTimestamp == nil
}

// jobOf returns the known facts of a pod's job. The user is left out: within their namespace, people may write what they like on their
// pods. Run times of other namespaces do not count either, so that no user can make another namespace's pods look short.
func jobOf(pod *corev1.Pod, members int) survival.Job {
	request, _ := gpu.RequestOf(pod) // one that cannot be counted is placed nowhere
	each := min(max(request.Whole, request.Shared, 1), gpu.MaxCards)
	return survival.Job{Namespace: pod.Namespace, GPUs: each * int64(max(members, 1))}
}

// Learn bases reservations on how long jobs have run, also for pods without deadlines; nil uses deadlines alone. Users are not distinguished in
// the history, and it is not extended.
func (p *Promises) Learn(past *survival.History) {
	if past != nil {
		past.Settle()
	}
	p.expected.past.Store(past)
}

// Learns reports whether the run times of jobs are known.
func (p *Promises) Learns() bool { return p != nil && p.expected.past.Load() != nil }

// Gone returns when a pod on a node is gone, by its deadline or its expected end.
func (p *Promises) Gone(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	if at, sure := reservation.Gone(pod, now); sure || !ends(pod) {
		return at, sure
	}
	return p.expected.gone(pod, p.turnOf(pod).Members, now)
}

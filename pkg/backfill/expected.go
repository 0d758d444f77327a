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
	// expectedQuantile is the probability that a pod is gone by its expected end.
	expectedQuantile = 0.95
	// trustPeriod is for how long a job may have waited while other pods still use its reserved nodes based on expected ends. Pods that stay longer
	// than their predecessors delay the job; after this time no pod may do so. With a day, too many would wait for the few jobs that have waited
	// as long: docs/benchmarks/queueing.md has the cost.
	trustPeriod = 72 * time.Hour
	// maxExpectedEnds is for how many pods the expected end is remembered: more than there are on 20,000 nodes of 8 GPUs.
	maxExpectedEnds = 200_000
)

// expectations are the expected ends of pods without a deadline, based on earlier run times. The zero value expects nothing.
//
// An expected end holds until it is over: if it were computed anew at each look, a reservation would recede before its job. For a pod that lasts
// longer, it is computed again, among runs that have lasted as long.
type expectations struct {
	history atomic.Pointer[survival.History]

	mu   sync.Mutex
	ends map[types.UID]time.Time
}

// expectedStay returns how long a pod that is placed now is expected to stay, false if unknown.
func (e *expectations) expectedStay(pod *corev1.Pod, members int) (time.Duration, bool) {
	past := e.history.Load()
	if past == nil || !endsByItself(pod) {
		return 0, false
	}
	runs := past.RemainingByOwner(survivalJob(pod, members), 0, 0).Quantile(expectedQuantile)
	return runs + reservation.Margin, runs < survival.Never-reservation.Margin
}

// expectedEnd returns when a pod on a node is expected to be gone, false if unknown.
func (e *expectations) expectedEnd(pod *corev1.Pod, members int, now time.Time) (time.Time, bool) {
	past := e.history.Load()
	if past == nil || !endsByItself(pod) {
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
	left := past.RemainingByOwner(survivalJob(pod, members), elapsed, 0).Quantile(expectedQuantile)
	if left == survival.Never {
		return time.Time{}, false
	}
	end := now.Add(max(left, time.Minute))
	e.rememberEnd(pod.UID, end, now)
	return end, true
}

// rememberEnd stores the end of a pod, and drops expired ones if there are too many.
func (e *expectations) rememberEnd(pod types.UID, end, now time.Time) {
	if len(e.ends) >= maxExpectedEnds {
		maps.DeleteFunc(e.ends, func(_ types.UID, end time.Time) bool { return !end.After(now) })
	}
	if e.ends == nil || len(e.ends) >= maxExpectedEnds {
		e.ends = map[types.UID]time.Time{}
	}
	e.ends[pod] = end
}

// endsByItself reports whether a pod has GPUs and ends by itself, without a deadline. A service never ends.
func endsByItself(pod *corev1.Pod) bool {
	once := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	request, _ := gpu.RequestOf(pod)
	return once && !request.IsZero() && pod.Spec.ActiveDeadlineSeconds == nil && pod.DeletionTimestamp == nil
}

// survivalJob returns the known facts of a pod's job. The user is left out: within their namespace, people may write what they like on their
// pods. Run times of other namespaces do not count either, so that no user can make another namespace's pods look short.
func survivalJob(pod *corev1.Pod, members int) survival.Job {
	request, _ := gpu.RequestOf(pod) // one that cannot be counted is placed nowhere
	each := min(max(request.Whole, request.Shared, 1), gpu.MaxGPUs)
	return survival.Job{Namespace: pod.Namespace, GPUs: each * int64(max(members, 1))}
}

// SetHistory bases reservations on how long jobs have run, also for pods without deadlines; nil uses deadlines alone. Users are not distinguished in
// the history, and it is not extended.
func (p *StartReservations) SetHistory(past *survival.History) {
	if past != nil {
		past.PrepareReads()
	}
	p.expected.history.Store(past)
}

// HasHistory reports whether the run times of jobs are known.
func (p *StartReservations) HasHistory() bool { return p != nil && p.expected.history.Load() != nil }

// ExpectedEnd returns when a pod on a node is gone, by its deadline or its expected end.
func (p *StartReservations) ExpectedEnd(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	if at, sure := reservation.GoneBy(pod, now); sure || !endsByItself(pod) {
		return at, sure
	}
	return p.expected.expectedEnd(pod, p.positionOf(pod).Members, now)
}

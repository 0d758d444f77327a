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
	// quantile is how probable it is that a pod is gone by when it is expected to be.
	quantile = 0.95
	// trust is for how long a job may have waited while others still use what it was promised as they are expected to be gone by then.
	// Whoever stays for longer than those before them makes a job wait that was promised its start; nobody does so after that. In a day
	// too many would wait for the few that have waited as long: docs/benchmarks/queueing.md has what it costs.
	trust = 72 * time.Hour
	// mostExpected is of how many pods it is remembered until when they are expected to stay: more than there are on 20,000 nodes of 8 GPUs.
	mostExpected = 200_000
)

// expectations are when pods are gone that have no deadline, by how long others have run before them. The zero value expects nothing.
//
// What was said of a pod holds until that is over: asked anew at each look, a promise would recede before whoever waits for it. Who lasts
// longer is asked of again, among those that have lasted as long.
type expectations struct {
	past atomic.Pointer[survival.History]

	mu   sync.Mutex
	ends map[types.UID]time.Time
}

// stay is how long a pod that is placed now is expected to be on a node, false where nobody knows.
func (e *expectations) stay(pod *corev1.Pod, members int) (time.Duration, bool) {
	past := e.past.Load()
	if past == nil || !ends(pod) {
		return 0, false
	}
	runs := past.RemainingOwn(jobOf(pod, members), 0, 0).Quantile(quantile)
	return runs + reservation.Margin, runs < survival.Never-reservation.Margin
}

// gone is when a pod that has a node is expected to be gone from it, false where nobody knows.
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

// remember notes the end of a pod, and forgets those that are over where there are too many.
func (e *expectations) remember(pod types.UID, end, now time.Time) {
	if len(e.ends) >= mostExpected {
		maps.DeleteFunc(e.ends, func(_ types.UID, end time.Time) bool { return !end.After(now) })
	}
	if e.ends == nil || len(e.ends) >= mostExpected {
		e.ends = map[types.UID]time.Time{}
	}
	e.ends[pod] = end
}

// ends reports whether a pod has GPUs and ends by itself, at a time that it does not say: a service never does.
func ends(pod *corev1.Pod) bool {
	once := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	request, _ := gpu.RequestOf(pod)
	return once && !request.IsZero() && pod.Spec.ActiveDeadlineSeconds == nil && pod.DeletionTimestamp == nil
}

// jobOf is what is known of a pod's job. Its user is not asked: in their namespace, people may write what they like on their pods. Nor
// does it count how long others have run, so that nobody has those of another namespace taken for short ones.
func jobOf(pod *corev1.Pod, members int) survival.Job {
	request, _ := gpu.RequestOf(pod) // one that cannot be counted is placed nowhere
	each := min(max(request.Whole, request.Shared, 1), gpu.MaxCards)
	return survival.Job{Namespace: pod.Namespace, GPUs: each * int64(max(members, 1))}
}

// Learn has starts be promised by how long jobs have run, also where pods have no deadlines; nil for by deadlines alone. Users are not
// told apart in it, and nothing more is learnt in it.
func (p *Promises) Learn(past *survival.History) {
	if past != nil {
		past.Settle()
	}
	p.expected.past.Store(past)
}

// Learns reports whether it is known how long jobs run.
func (p *Promises) Learns() bool { return p != nil && p.expected.past.Load() != nil }

// Gone is when a pod that has a node is gone from it, by its deadline or as is expected of it.
func (p *Promises) Gone(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	if at, sure := reservation.Gone(pod, now); sure || !ends(pod) {
		return at, sure
	}
	return p.expected.gone(pod, p.turnOf(pod).Members, now)
}

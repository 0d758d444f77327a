package coscheduling

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// resumeWithin is how long it is remembered that a pod left when it was told to, if no other comes in its place.
const resumeWithin = 24 * time.Hour

// resumptions are the pods that left when they were told to, by who made them and makes others in their place: those come before
// all others of their priority. The instances of all profiles share it.
type resumptions struct {
	mu sync.RWMutex
	of map[types.UID]*resumption
	// queued are the pods that come in the place of others, as it was when they were put in the queue.
	queued sets.Set[types.UID]
}

// resumption is how many pods of one controller have left, and when the last of them has.
type resumption struct {
	pods int
	last time.Time
}

// leave notes that a pod has left. One that nobody makes again does not come back.
func (r *resumptions) leave(pod *corev1.Pod, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of, r.queued = map[types.UID]*resumption{}, sets.New[types.UID]()
	}
	for uid, old := range r.of {
		if now.Sub(old.last) > resumeWithin {
			delete(r.of, uid)
		}
	}
	if r.of[owner.UID] == nil {
		r.of[owner.UID] = &resumption{}
	}
	of := r.of[owner.UID]
	of.pods, of.last = of.pods+1, now
}

// start notes that a pod has got a place, perhaps in the place of one that left.
func (r *resumptions) start(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued.Delete(pod.UID)
	if owner == nil || r.of[owner.UID] == nil {
		return
	}
	if of := r.of[owner.UID]; of.pods > 1 {
		of.pods--
	} else {
		delete(r.of, owner.UID)
	}
}

// enqueue notes whether a pod that is put in the queue comes in the place of one that left when it was told to.
func (r *resumptions) enqueue(pod *corev1.Pod, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || len(r.of) == 0 && len(r.queued) == 0 {
		return
	}
	if of := r.of[owner.UID]; of != nil && now.Sub(of.last) <= resumeWithin {
		r.queued.Insert(pod.UID)
	} else {
		r.queued.Delete(pod.UID)
	}
}

// has reports whether a pod was put in the queue as one that comes back.
func (r *resumptions) has(pod types.UID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.queued.Has(pod)
}

// forget drops what is kept of a pod that comes to the queue no more.
func (r *resumptions) forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued.Delete(pod)
}

// resume notes who leaves as it was told to, and who comes back.
func (p *Plugin) resume(before, after *corev1.Pod) {
	switch {
	case after == nil:
		p.resumptions.forget(before.UID)
	case before.Spec.NodeName == "" && after.Spec.NodeName != "":
		p.resumptions.start(after)
	}
	if _, told := p.notices.onPod(before.UID); !told || after != nil && lives(after) {
		return
	}
	last := after
	if last == nil {
		last = before
	}
	if wasPreempted(last) {
		p.resumptions.leave(last, p.now())
	}
}

// wasPreempted reports whether the scheduler had a pod leave, and not its user.
func wasPreempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

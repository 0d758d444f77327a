package preemption

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ResumeWindow is how long a pod's departure after a notice is remembered, if no replacement arrives.
const ResumeWindow = 24 * time.Hour

// Resumptions track the pods that left after a notice, by the controller that replaces them. Replacements come before all other pods of their
// priority. This is also written on the replacements, for the next leader. All profiles share it.
type Resumptions struct {
	mu      sync.Mutex
	ByOwner map[types.UID]*resumption
	// seen are departing pods that still exist: a process that begins to lead counts them once.
	seen sets.Set[types.UID]
}

// resumption is how many pods of one controller have left, and when the last one did. noted are their replacements: no more than have left.
type resumption struct {
	pods  int
	last  time.Time
	noted sets.Set[types.UID]
}

// RecordLeft records that a pod has left, and whether it still exists. A pod without a controller is not replaced.
func (r *Resumptions) RecordLeft(pod *corev1.Pod, there bool, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.Has(pod.UID) {
		return
	}
	if r.ByOwner == nil {
		r.ByOwner, r.seen = map[types.UID]*resumption{}, sets.New[types.UID]()
	}
	if there {
		r.seen.Insert(pod.UID)
	}
	for uid, old := range r.ByOwner {
		if now.Sub(old.last) > ResumeWindow {
			delete(r.ByOwner, uid)
		}
	}
	if r.ByOwner[owner.UID] == nil {
		r.ByOwner[owner.UID] = &resumption{noted: sets.New[types.UID]()}
	}
	of := r.ByOwner[owner.UID]
	of.pods, of.last = of.pods+1, now
}

// ForgetPod drops a pod that no longer exists. If it was a replacement, the next pod becomes one.
func (r *Resumptions) ForgetPod(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Delete(pod.UID)
	if owner != nil && r.ByOwner[owner.UID] != nil {
		r.ByOwner[owner.UID].noted.Delete(pod.UID)
	}
}

// RecordStart records that a pod has a place, possibly as a replacement.
func (r *Resumptions) RecordStart(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.ByOwner[owner.UID] == nil {
		return
	}
	of := r.ByOwner[owner.UID]
	of.noted.Delete(pod.UID)
	if of.pods--; of.pods < 1 {
		delete(r.ByOwner, owner.UID)
	}
}

// LastLeft returns when the pod left that the given pod replaces, the zero time if it is no replacement. A controller has at most as many
// replacements as pods that left. noted says that another leader has written it on the pod.
func (r *Resumptions) LastLeft(pod *corev1.Pod, noted bool) time.Time {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.ByOwner[owner.UID] == nil {
		return time.Time{}
	}
	of := r.ByOwner[owner.UID]
	if noted || of.noted.Len() < of.pods {
		of.noted.Insert(pod.UID)
	}
	if !of.noted.Has(pod.UID) {
		return time.Time{}
	}
	return of.last
}

package coscheduling

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
)

// resumeWithin is how long a pod's departure after a notice is remembered, if no replacement arrives.
const resumeWithin = 24 * time.Hour

// resumptions track the pods that left after a notice, by the controller that replaces them. Replacements come before all other pods of their
// priority. This is also written on the replacements, for the next leader. All profiles share it.
type resumptions struct {
	mu sync.Mutex
	of map[types.UID]*resumption
	// seen are departing pods that still exist: a process that begins to lead counts them once.
	seen sets.Set[types.UID]
}

// resumption is how many pods of one controller have left, and when the last one did. noted are their replacements: no more than have left.
type resumption struct {
	pods  int
	last  time.Time
	noted sets.Set[types.UID]
}

// leave records that a pod has left, and whether it still exists. A pod without a controller is not replaced.
func (r *resumptions) leave(pod *corev1.Pod, there bool, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.Has(pod.UID) {
		return
	}
	if r.of == nil {
		r.of, r.seen = map[types.UID]*resumption{}, sets.New[types.UID]()
	}
	if there {
		r.seen.Insert(pod.UID)
	}
	for uid, old := range r.of {
		if now.Sub(old.last) > resumeWithin {
			delete(r.of, uid)
		}
	}
	if r.of[owner.UID] == nil {
		r.of[owner.UID] = &resumption{noted: sets.New[types.UID]()}
	}
	of := r.of[owner.UID]
	of.pods, of.last = of.pods+1, now
}

// gone drops a pod that no longer exists. If it was a replacement, the next pod becomes one.
func (r *resumptions) gone(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Delete(pod.UID)
	if owner != nil && r.of[owner.UID] != nil {
		r.of[owner.UID].noted.Delete(pod.UID)
	}
}

// start records that a pod has a place, possibly as a replacement.
func (r *resumptions) start(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.of[owner.UID] == nil {
		return
	}
	of := r.of[owner.UID]
	of.noted.Delete(pod.UID)
	if of.pods--; of.pods < 1 {
		delete(r.of, owner.UID)
	}
}

// lastOf returns when the pod left that the given pod replaces, the zero time if it is no replacement. A controller has at most as many
// replacements as pods that left. noted says that another leader has written it on the pod.
func (r *resumptions) lastOf(pod *corev1.Pod, noted bool) time.Time {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.of[owner.UID] == nil {
		return time.Time{}
	}
	of := r.of[owner.UID]
	if noted || of.noted.Len() < of.pods {
		of.noted.Insert(pod.UID)
	}
	if !of.noted.Has(pod.UID) {
		return time.Time{}
	}
	return of.last
}

// resumes reports whether a pod replaces one that left after a notice, and has this written on it.
func (p *Plugin) resumes(pod *corev1.Pod) bool {
	now := p.now()
	if since := whenLeft(pod); !since.IsZero() {
		p.resumptions.lastOf(pod, true)
		return now.Sub(since) <= resumeWithin
	}
	since := p.resumptions.lastOf(pod, false)
	if since.IsZero() || now.Sub(since) > resumeWithin {
		return false
	}
	if p.notices.leads() {
		p.noteResumes(pod, since)
	}
	return true
}

// whenLeft returns when the replaced pod left, from the condition of its replacement; the zero time for none. Users cannot write it, unless they
// may write the status of pods.
func whenLeft(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == names.ConditionResumes && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// noteResumes writes on a pod that it is a replacement, concurrently with scheduling. After a failure it is retried when the pod is next queued.
func (p *Plugin) noteResumes(pod *corev1.Pod, since time.Time) {
	condition := corev1.PodCondition{
		Type: names.ConditionResumes, Status: corev1.ConditionTrue, Reason: "LeftAfterNotice", LastTransitionTime: metav1.NewTime(since),
		Message: "it comes in the place of a pod that left when it was told to, before others of its priority",
	}
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.patchStatus(ctx, pod, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}}); err != nil {
			klog.Background().Error(err, "Could not write on a pod that it comes in the place of another", "pod", klog.KObj(pod))
		}
	}()
}

// resume tracks pods that leave after a notice, and their replacements. A process that does not lead does so too: it may lead next, and its
// queue then has the replacements.
func (p *Plugin) resume(before, after *corev1.Pod) {
	if after != nil && before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		p.resumptions.start(after)
	}
	last, there := after, after != nil
	if !there {
		last = before
	}
	switch {
	case there && lives(after):
		return
	case !p.notices.leads():
		if lives(before) {
			p.resumeLeaving(last, there)
		}
	default:
		if _, told := p.notices.onPod(before.UID); told && wasPreempted(last) {
			p.resumptions.leave(last, there, p.now())
		}
	}
	if !there {
		p.resumptions.gone(before)
	}
}

// resumeLeaving records a pod that is leaving, or has left, after a notice of another leader.
func (p *Plugin) resumeLeaving(pod *corev1.Pod, there bool) {
	if _, told := notice.Of(pod); told && wasPreempted(pod) {
		p.resumptions.leave(pod, there, p.now())
	}
}

// wasPreempted reports whether the scheduler, and not its user, made a pod leave.
func wasPreempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

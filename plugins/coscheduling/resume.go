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

// resumeWithin is how long it is remembered that a pod left when it was told to, if no other comes in its place.
const resumeWithin = 24 * time.Hour

// resumptions are the pods that left when they were told to, by who made them and makes others in their place: those come before
// all others of their priority. It is also written on those that come, for a scheduler that leads after this one. The instances of
// all profiles share it.
type resumptions struct {
	mu sync.Mutex
	of map[types.UID]*resumption
	// seen are those that were seen to leave and are there still: a process that begins to lead counts them once.
	seen sets.Set[types.UID]
}

// resumption is how many pods of one controller have left, and when the last of them has. noted are those that come in their place: no more
// than have left.
type resumption struct {
	pods  int
	last  time.Time
	noted sets.Set[types.UID]
}

// leave notes that a pod has left, and is there still or not. One that nobody makes again does not come back.
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

// gone forgets a pod that is not there any more. If it came in the place of another one, the next that comes does.
func (r *resumptions) gone(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Delete(pod.UID)
	if owner != nil && r.of[owner.UID] != nil {
		r.of[owner.UID].noted.Delete(pod.UID)
	}
}

// start notes that a pod has got a place, perhaps in the place of one that left.
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

// lastOf is when the last pod left that a pod comes in the place of, the zero time for none: of one controller as many come so as have left,
// and no more. noted says that another leader has written it on the pod.
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

// resumes reports whether a pod comes in the place of one that left when it was told to, and sees to it that this is written on it.
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

// whenLeft is when the pod left that another one comes in the place of, as its condition says; the zero time for none. Users cannot
// write it, unless they may write the status of pods.
func whenLeft(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == names.ConditionResumes && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// noteResumes writes on a pod that it comes in the place of one that left, beside the scheduling of others. Where that fails it is tried
// again when the pod is next put in the queue.
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

// resume notes who leaves as it was told to, and who comes back. A process that does not lead notes it, too: it may lead next, and its
// queue has those by then that come back.
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

// resumeLeaving notes who leaves, or has, as another leader has told it to.
func (p *Plugin) resumeLeaving(pod *corev1.Pod, there bool) {
	if _, told := notice.Of(pod); told && wasPreempted(pod) {
		p.resumptions.leave(pod, there, p.now())
	}
}

// wasPreempted reports whether the scheduler had a pod leave, and not its user.
func wasPreempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

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

// resumeWindow is how long a pod's departure after a notice is remembered, if no replacement arrives.
const resumeWindow = 24 * time.Hour

// resumptions track the pods that left after a notice, by the controller that replaces them. Replacements come before all other pods of their
// priority. This is also written on the replacements, for the next leader. All profiles share it.
type resumptions struct {
	mu      sync.Mutex
	byOwner map[types.UID]*resumption
	// seen are departing pods that still exist: a process that begins to lead counts them once.
	seen sets.Set[types.UID]
}

// resumption is how many pods of one controller have left, and when the last one did. noted are their replacements: no more than have left.
type resumption struct {
	pods  int
	last  time.Time
	noted sets.Set[types.UID]
}

// recordLeft records that a pod has left, and whether it still exists. A pod without a controller is not replaced.
func (r *resumptions) recordLeft(pod *corev1.Pod, there bool, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.Has(pod.UID) {
		return
	}
	if r.byOwner == nil {
		r.byOwner, r.seen = map[types.UID]*resumption{}, sets.New[types.UID]()
	}
	if there {
		r.seen.Insert(pod.UID)
	}
	for uid, old := range r.byOwner {
		if now.Sub(old.last) > resumeWindow {
			delete(r.byOwner, uid)
		}
	}
	if r.byOwner[owner.UID] == nil {
		r.byOwner[owner.UID] = &resumption{noted: sets.New[types.UID]()}
	}
	of := r.byOwner[owner.UID]
	of.pods, of.last = of.pods+1, now
}

// forgetPod drops a pod that no longer exists. If it was a replacement, the next pod becomes one.
func (r *resumptions) forgetPod(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Delete(pod.UID)
	if owner != nil && r.byOwner[owner.UID] != nil {
		r.byOwner[owner.UID].noted.Delete(pod.UID)
	}
}

// recordStart records that a pod has a place, possibly as a replacement.
func (r *resumptions) recordStart(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.byOwner[owner.UID] == nil {
		return
	}
	of := r.byOwner[owner.UID]
	of.noted.Delete(pod.UID)
	if of.pods--; of.pods < 1 {
		delete(r.byOwner, owner.UID)
	}
}

// lastLeft returns when the pod left that the given pod replaces, the zero time if it is no replacement. A controller has at most as many
// replacements as pods that left. noted says that another leader has written it on the pod.
func (r *resumptions) lastLeft(pod *corev1.Pod, noted bool) time.Time {
	owner := metav1.GetControllerOfNoCopy(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == nil || r.byOwner[owner.UID] == nil {
		return time.Time{}
	}
	of := r.byOwner[owner.UID]
	if noted || of.noted.Len() < of.pods {
		of.noted.Insert(pod.UID)
	}
	if !of.noted.Has(pod.UID) {
		return time.Time{}
	}
	return of.last
}

// isReplacement reports whether a pod replaces one that left after a notice, and has this written on it.
func (p *Plugin) isReplacement(pod *corev1.Pod) bool {
	now := p.now()
	if since := whenLeft(pod); !since.IsZero() {
		p.resumptions.lastLeft(pod, true)
		return now.Sub(since) <= resumeWindow
	}
	since := p.resumptions.lastLeft(pod, false)
	if since.IsZero() || now.Sub(since) > resumeWindow {
		return false
	}
	if p.preemptions.hasBegunLeading() {
		p.writeResumes(pod, since)
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

// writeResumes writes on a pod that it is a replacement, concurrently with scheduling. After a failure it is retried when the pod is next queued.
func (p *Plugin) writeResumes(pod *corev1.Pod, since time.Time) {
	condition := corev1.PodCondition{
		Type: names.ConditionResumes, Status: corev1.ConditionTrue, Reason: "LeftAfterNotice", LastTransitionTime: metav1.NewTime(since),
		Message: "it comes in the place of a pod that left when it was told to, before others of its priority",
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		if err := p.patchStatus(ctx, pod, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}}); err != nil {
			klog.Background().Error(err, "Could not write on a pod that it comes in the place of another", "pod", klog.KObj(pod))
		}
	}()
}

// trackReplacement tracks pods that leave after a notice, and their replacements. A process that does not lead does so too: it may lead next, and its
// queue then has the replacements.
func (p *Plugin) trackReplacement(before, after *corev1.Pod) {
	if after != nil && before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		p.resumptions.recordStart(after)
	}
	last, there := after, after != nil
	if !there {
		last = before
	}
	switch {
	case there && isLive(after):
		return
	case !p.preemptions.hasBegunLeading():
		if isLive(before) {
			p.trackLeaving(last, there)
		}
	default:
		if _, told := p.preemptions.noticeOn(before.UID); told && wasPreempted(last) {
			p.resumptions.recordLeft(last, there, p.now())
		}
	}
	if !there {
		p.resumptions.forgetPod(before)
	}
}

// trackLeaving records a pod that is leaving, or has left, after a notice of another leader.
func (p *Plugin) trackLeaving(pod *corev1.Pod, there bool) {
	if _, told := notice.FromPod(pod); told && wasPreempted(pod) {
		p.resumptions.recordLeft(pod, there, p.now())
	}
}

// wasPreempted reports whether the scheduler, and not its user, made a pod leave.
func wasPreempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

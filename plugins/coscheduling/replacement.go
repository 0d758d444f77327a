package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// isReplacement reports whether a pod replaces one that left after a notice, and has this written on it.
func (p *Plugin) isReplacement(pod *corev1.Pod) bool {
	now := p.now()
	if since := whenLeft(pod); !since.IsZero() {
		p.resumptions.LastLeft(pod, true)
		return now.Sub(since) <= preemption.ResumeWindow
	}
	since := p.resumptions.LastLeft(pod, false)
	if since.IsZero() || now.Sub(since) > preemption.ResumeWindow {
		return false
	}
	if p.preemptions.HasBegunLeading() {
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
		if err := p.evictor().PatchStatus(ctx, pod, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}}); err != nil {
			klog.Background().Error(err, "Could not write on a pod that it comes in the place of another", "pod", klog.KObj(pod))
		}
	}()
}

// trackReplacement tracks pods that leave after a notice, and their replacements. A process that does not lead does so too: it may lead next, and its
// queue then has the replacements.
func (p *Plugin) trackReplacement(before, after *corev1.Pod) {
	if after != nil && before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		p.resumptions.RecordStart(after)
	}
	last, there := after, after != nil
	if !there {
		last = before
	}
	switch {
	case there && isLive(after):
		return
	case !p.preemptions.HasBegunLeading():
		if isLive(before) {
			p.trackLeaving(last, there)
		}
	default:
		if _, told := p.preemptions.NoticeOn(before.UID); told && partial.WasPreempted(last) {
			p.resumptions.RecordLeft(last, there, p.now())
		}
	}
	if !there {
		p.resumptions.ForgetPod(before)
	}
}

// trackLeaving records a pod that is leaving, or has left, after a notice of another leader.
func (p *Plugin) trackLeaving(pod *corev1.Pod, there bool) {
	if _, told := notice.FromPod(pod); told && partial.WasPreempted(pod) {
		p.resumptions.RecordLeft(pod, there, p.now())
	}
}

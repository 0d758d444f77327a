package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
)

// This file holds everything that a victim gets to see: the condition and the event of an evicted pod, and the event of a pod that has time to
// save its work, or may stay. gpuctl interprets them in pkg/diagnosis and pkg/inventory.

// farewell is why a pod is evicted: the reason in its condition DisruptionTarget and in its event, the metric label, the preemptor, and a text.
type farewell struct {
	condition, event string
	counts           string
	by               *corev1.Pod
	note             string
}

// reasonIncomplete is the DisruptionTarget reason for members of a partially bound gang.
const reasonIncomplete = "IncompleteGang"

// preempted is the eviction reason for pods that leave for a gang, or for a single pod from whose quota they borrowed GPUs.
func preempted(g gang, by *corev1.Pod) farewell {
	note, counts := "preempted by the gang of pod "+by.Name, forGang
	if g.isAlone() {
		counts = forQuota
		note = "preempted by pod " + by.Name + ", whose namespace is guaranteed the GPUs"
	}
	return farewell{condition: corev1.PodReasonPreemptionByScheduler, event: "Preempted", counts: counts, by: by, note: note}
}

// dissolved is the eviction reason for members of a partially bound gang that is released because there is no room for another member.
func dissolved(without *corev1.Pod) farewell {
	return farewell{condition: reasonIncomplete, event: "Dissolved", counts: forHalf, by: without,
		note: "ended since there is no room for pod " + without.Name + " and its gang starts as a whole or not at all"}
}

// sayWhy writes the eviction reason to a pod.
func (p *Plugin) sayWhy(ctx context.Context, victim *corev1.Pod, why farewell) error {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why.condition,
		Message:            why.by.Spec.SchedulerName + ": " + why.note,
		LastTransitionTime: metav1.NewTime(p.now()),
	}
	return p.patchStatus(ctx, victim, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}})
}

// tellEvicted records an event with the eviction reason of a pod.
func (p *Plugin) tellEvicted(victim *corev1.Pod, why farewell) {
	p.handle.EventRecorder().Eventf(victim, why.by, corev1.EventTypeNormal, why.event, "Evicting", "%s", why.note)
}

// tellNotice records an event about a preemption notice: until when the pod has time, or that it may stay.
func (p *Plugin) tellNotice(pod *corev1.Pod, told notice.Notice, leaves bool) {
	if !leaves {
		p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "PreemptionWithdrawn", "Keeping", "it may stay: nobody takes its place any more")
		return
	}
	by := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: told.For.Namespace, Name: told.For.Pod}}
	p.handle.EventRecorder().Eventf(pod, by, corev1.EventTypeWarning, "PreemptionNotice", "Noticing",
		"it is to leave by %s for pod %s/%s: save your work and set the annotation %s", told.Until.Format(time.RFC3339),
		told.For.Namespace, told.For.Pod, names.AnnotationCheckpointedAt)
}

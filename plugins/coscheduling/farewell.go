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

// All that a pod is told that is to leave its node is in this file: the condition and the event of one that goes, and the event of one
// that has time to save its work, or may stay. What gpuctl makes of that is in pkg/diagnosis and pkg/inventory.

// farewell is why a pod is evicted: the reason of its condition DisruptionTarget and of its event, what it is counted by, for which pod, and
// in words.
type farewell struct {
	condition, event string
	counts           string
	by               *corev1.Pod
	note             string
}

// reasonIncomplete is why members leave their nodes that are half a gang, in their condition DisruptionTarget.
const reasonIncomplete = "IncompleteGang"

// preempted is what those are told who leave for a gang, or for a pod alone, which they have borrowed their GPUs from.
func preempted(g gang, by *corev1.Pod) farewell {
	note, counts := "preempted by the gang of pod "+by.Name, forGang
	if g.isAlone() {
		counts = forQuota
		note = "preempted by pod " + by.Name + ", whose namespace is guaranteed the GPUs"
	}
	return farewell{condition: corev1.PodReasonPreemptionByScheduler, event: "Preempted", counts: counts, by: by, note: note}
}

// dissolved is what the members of half a gang are told, which end as there is no room for another member.
func dissolved(without *corev1.Pod) farewell {
	return farewell{condition: reasonIncomplete, event: "Dissolved", counts: forHalf, by: without,
		note: "ended since there is no room for pod " + without.Name + " and its gang starts as a whole or not at all"}
}

// sayWhy writes on a pod why it is to go.
func (p *Plugin) sayWhy(ctx context.Context, victim *corev1.Pod, why farewell) error {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why.condition,
		Message:            why.by.Spec.SchedulerName + ": " + why.note,
		LastTransitionTime: metav1.NewTime(p.now()),
	}
	return p.patchStatus(ctx, victim, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}})
}

// tellEvicted has an event say why a pod went.
func (p *Plugin) tellEvicted(victim *corev1.Pod, why farewell) {
	p.handle.EventRecorder().Eventf(victim, why.by, corev1.EventTypeNormal, why.event, "Evicting", "%s", why.note)
}

// tellNotice has an event say what a pod was told: until when it has time, or that it may stay.
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

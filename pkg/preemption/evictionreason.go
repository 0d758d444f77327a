package preemption

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

// EvictionReason is why a pod is evicted: the reason in its condition DisruptionTarget and in its event, the metric label, the preemptor, and a text.
type EvictionReason struct {
	Condition, Event string
	MetricLabel      string
	Preemptor        *corev1.Pod
	Note             string
}

// WriteEvictionReason writes the eviction reason to a pod.
func (e Evictor) WriteEvictionReason(ctx context.Context, victim *corev1.Pod, why EvictionReason) error {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why.Condition,
		Message:            why.Preemptor.Spec.SchedulerName + ": " + why.Note,
		LastTransitionTime: metav1.NewTime(e.Now()),
	}
	return e.PatchStatus(ctx, victim, types.StrategicMergePatchType, map[string]any{"conditions": []corev1.PodCondition{condition}})
}

// recordEviction records an event with the eviction reason of a pod.
func (e Evictor) recordEviction(victim *corev1.Pod, why EvictionReason) {
	e.Handle.EventRecorder().Eventf(victim, why.Preemptor, corev1.EventTypeNormal, why.Event, "Evicting", "%s", why.Note)
}

// RecordNotice records an event about a preemption notice: until when the pod has time, or that it may stay.
func (e Evictor) RecordNotice(pod *corev1.Pod, told notice.Notice, leaves bool) {
	if !leaves {
		e.Handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "PreemptionWithdrawn", "Keeping", "it may stay: nobody takes its place any more")
		return
	}
	by := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: told.For.Namespace, Name: told.For.Pod}}
	e.Handle.EventRecorder().Eventf(pod, by, corev1.EventTypeWarning, "PreemptionNotice", "Noticing",
		"it is to leave by %s for pod %s/%s: save your work and set the annotation %s", told.Until.Format(time.RFC3339),
		told.For.Namespace, told.For.Pod, names.AnnotationCheckpointedAt)
}

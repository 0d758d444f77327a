package reason

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestIsUnheard tells a pod whose scheduler nobody runs from one whose turn comes.
func TestIsUnheard(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	pod := func(scheduler string, age time.Duration, change ...func(*corev1.Pod)) corev1.Pod {
		out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}, Spec: corev1.PodSpec{SchedulerName: scheduler},
			Status: corev1.PodStatus{Phase: corev1.PodPending}}
		for _, do := range change {
			do(&out)
		}
		return out
	}
	said := func(why string, ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
		}
	}
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue"}} }
	nominated := func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }
	const profile = names.SchedulerPluginsName
	tests := map[string]struct {
		pod    corev1.Pod
		others []corev1.Pod
		led    time.Time
		want   bool
	}{
		"nobody looks at it":                         {pod: pod(profile, 2*time.Minute), want: true},
		"it is young":                                {pod: pod(profile, 50*time.Second)},
		"it was looked at":                           {pod: pod(profile, time.Hour, said(corev1.PodReasonUnschedulable, time.Hour))},
		"another of the name was, since":             {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(profile, time.Hour, said(corev1.PodReasonUnschedulable, time.Minute))}},
		"another was, before the profile went":       {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(profile, time.Hour, said(corev1.PodReasonUnschedulable, 50*time.Minute))}, want: true},
		"another is gated, which no scheduler did":   {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(profile, time.Minute, gated, said(corev1.PodReasonSchedulingGated, time.Minute))}, want: true},
		"another profile looks at its own":           {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(names.SchedulerName, time.Minute, said(corev1.PodReasonUnschedulable, 0))}, want: true},
		"another was, in the second of its creation": {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(profile, time.Hour, said(corev1.PodReasonUnschedulable, 2*time.Minute))}},
		"it has a place, and its volume takes long":  {pod: pod(profile, 2*time.Minute, nominated)},
		"another of the name has a place, since":     {pod: pod(profile, 2*time.Minute), others: []corev1.Pod{pod(profile, time.Minute, nominated)}},
		"the scheduler leads since a moment":         {pod: pod(profile, 2*time.Minute), led: now.Add(-5 * time.Second)},
		"the scheduler leads for long":               {pod: pod(profile, 2*time.Minute), led: now.Add(-time.Hour), want: true},
		"it is gated itself":                         {pod: pod(profile, time.Hour, gated)},
		"gpuctl's own profile, which has a lease":    {pod: pod(names.SchedulerName, time.Hour)},
		"the scheduler of somebody else":             {pod: pod("volcano", time.Hour)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := AttentionTo(append(tc.others, tc.pod)).IsUnheard(&tc.pod, tc.led, now); got != tc.want {
				t.Errorf("unheard: %v, want %v", got, tc.want)
			}
		})
	}
}

package minruntime

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestUntilWhenAPodMayNotBePreempted(t *testing.T) {
	start := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	scheduled := func(status corev1.ConditionStatus) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodScheduled, Status: status, LastTransitionTime: metav1.NewTime(start)},
		}}
	}
	started := corev1.PodStatus{StartTime: ptr.To(metav1.NewTime(start))}
	asks := metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationMinRuntime: "1h"}}
	ends := *asks.DeepCopy()
	ends.DeletionTimestamp = ptr.To(metav1.NewTime(start))
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want time.Time
	}{
		"it asks for nothing":          {pod: corev1.Pod{Status: started}},
		"an hour from its start":       {pod: corev1.Pod{ObjectMeta: asks, Status: started}, want: start.Add(time.Hour)},
		"its node has not told of it":  {pod: corev1.Pod{ObjectMeta: asks, Status: scheduled(corev1.ConditionTrue)}, want: start.Add(time.Hour)},
		"it waits":                     {pod: corev1.Pod{ObjectMeta: asks, Status: scheduled(corev1.ConditionFalse)}},
		"nothing is known of it":       {pod: corev1.Pod{ObjectMeta: asks}},
		"it was told to leave already": {pod: corev1.Pod{ObjectMeta: ends, Status: started}},
	} {
		if got := ProtectedUntil(&tc.pod, names.MinRuntimes{Most: time.Hour}); !got.Equal(tc.want) {
			t.Errorf("%s: until %s, want %s", name, got, tc.want)
		}
	}
	if !AppliesTo(1_000_000) || AppliesTo(2_000_000_000) {
		t.Error("a service of the cluster waits for others, or a user does not")
	}
}

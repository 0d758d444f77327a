package defrag

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestNobodyMovesForAPodThatAQuotaKeepsWaiting: more room does not help it.
func TestNobodyMovesForAPodThatAQuotaKeepsWaiting(t *testing.T) {
	pod := fixture.Pod("waits").GPUs(8).Obj()
	pod.Namespace, pod.UID, pod.Spec.SchedulerName = "team", "waits", names.SchedulerName
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	for most, want := range map[int64]int{4: 0, 8: 1} {
		s := &snapshot.Snapshot{Pods: []corev1.Pod{*pod}, Nodes: []corev1.Node{*fixture.Node("n").GPUs(8, "T4").Obj()}, GPUQuotas: []names.GPUQuota{{
			ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: names.GPUQuotaSpec{Namespaces: []string{"team"}, Pool: names.DefaultPool, Max: ptr.To(most)},
		}}}
		if got := len(FactsOf(s).Waiting); got != want {
			t.Errorf("with at most %d GPUs %d pods are made room for, want %d", most, got, want)
		}
	}
}

package inventory

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestAPodThatLeavesGivesItsPlaceInTheQuota: a Job makes the next pod when the one before has ended, which is counted
// until then. The quota does not stand against it.
func TestAPodThatLeavesGivesItsPlaceInTheQuota(t *testing.T) {
	const gpus = corev1.ResourceName("requests.nvidia.com/gpu")
	list := func(count string) corev1.ResourceList { return corev1.ResourceList{gpus: resource.MustParse(count)} }
	tests := map[string]struct {
		hard, used string
		want       bool
	}{
		"the job's own pod has all of it":       {"4", "4", false},
		"others have what is left":              {"8", "8", false},
		"it was lowered below what the job has": {"2", "4", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := training()
			job.Status.StartTime = &metav1.Time{Time: t0}
			leaves := of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning),
				condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", ""))
			leaves.DeletionTimestamp = &metav1.Time{Time: t0.Add(time.Minute)}
			job.Spec.Template.Spec = leaves.Spec
			built := Build(&snapshot.Snapshot{Jobs: []batchv1.Job{job}, Pods: []corev1.Pod{leaves}, Quotas: []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Name: "team", Namespace: job.Namespace},
				Spec:       corev1.ResourceQuotaSpec{Hard: list(tc.hard)}, Status: corev1.ResourceQuotaStatus{Used: list(tc.used)},
			}}}).Jobs[0]
			if got := built.Reason == quota.Reason; got != tc.want {
				t.Errorf("the job is %s, %s: %s", built.Status, built.Reason, built.Message)
			}
		})
	}
}

// TestAPodThatHasEndedIsNotThere: a quota may keep out the one that comes after it, which is to be looked at.
func TestAPodThatHasEndedIsNotThere(t *testing.T) {
	job := training()
	job.Status.StartTime = &metav1.Time{Time: t0}
	evicted := of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed),
		condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", ""))
	waits := of("sft", "training", pod("sft-2", "", "4", corev1.PodPending), func(*corev1.PodStatus) {})
	tests := map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"none is there":                    {nil, true},
		"one was evicted, and has ended":   {[]corev1.Pod{evicted}, true},
		"the next one is there":            {[]corev1.Pod{evicted, waits}, false},
		"the first one waits for its node": {[]corev1.Pod{waits}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := anyMissingPods(Build(&snapshot.Snapshot{Jobs: []batchv1.Job{job}, Pods: tc.pods}).Jobs); got != tc.want {
				t.Errorf("pods are missing: %t, want %t", got, tc.want)
			}
		})
	}
}

package recovery

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Bereft are the members of a gang that cannot work without the ones that they lose, and are to end with them: all that
// still run, if with those that are done they are fewer than the gang needs. They would wait for the lost ones until their own timeout, ten minutes
// with NCCL, then fail, and pay a retry each.
//
// members are the pods of the gang, and dead the names of the nodes whose pods are lost. A member that may not be moved
// stays.
func Bereft(members []*corev1.Pod, dead []string, minMember int) []*corev1.Pod {
	var left []*corev1.Pod
	done := 0
	for _, pod := range members {
		if pod.Status.Phase == corev1.PodSucceeded {
			done++
		}
		if !gpu.HasEnded(pod) && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && !slices.Contains(dead, pod.Spec.NodeName) {
			left = append(left, pod)
		}
	}
	if len(left)+done >= minMember {
		return nil
	}
	return slices.DeleteFunc(left, func(pod *corev1.Pod) bool { return eviction.HoldOf(pod, eviction.LostMembers) != "" })
}

// IsNewer reports whether a pod was made after another was told to leave: it was started anew then, and goes on.
func IsNewer(pod, leaving *corev1.Pod) bool {
	told := leaving.DeletionTimestamp.Time
	if grace := leaving.DeletionGracePeriodSeconds; grace != nil {
		told = told.Add(-time.Duration(*grace) * time.Second)
	}
	return pod.CreationTimestamp.After(told)
}

// IsOurs reports whether a pod is one that recovery is for: it was placed by our scheduler, and is not bound to its node
// as those of DaemonSets are.
func IsOurs(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Spec.SchedulerName == g8s.SchedulerName && owner != nil && owner.Kind != "DaemonSet" && owner.Kind != "Node"
}

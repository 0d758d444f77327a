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

// StrandedMembers returns the members of a gang that must end because they cannot work without the lost ones: all running members, if together with the
// succeeded ones they are fewer than the gang needs. They would wait for the lost members until their own timeout, ten minutes with NCCL, then fail,
// and pay a retry each.
//
// members are the pods of the gang, and dead the names of the nodes whose pods are lost. Members that must not be moved stay.
func StrandedMembers(members []*corev1.Pod, dead []string, minMember int) []*corev1.Pod {
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

// IsNewer reports whether a pod was created after another one began to terminate: then it is a replacement and continues.
func IsNewer(pod, leaving *corev1.Pod) bool {
	told := leaving.DeletionTimestamp.Time
	if grace := leaving.DeletionGracePeriodSeconds; grace != nil {
		told = told.Add(-time.Duration(*grace) * time.Second)
	}
	return pod.CreationTimestamp.After(told)
}

// IsOurs reports whether recovery applies to a pod: our scheduler placed it, and it is not bound to its node as those of DaemonSets are.
func IsOurs(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return g8s.IsOurScheduler(pod.Spec.SchedulerName) && owner != nil && owner.Kind != "DaemonSet" && owner.Kind != "Node"
}

package rejected

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// reasonOfKubelet is why kubelet rejects a pod to which one of its managers cannot allocate something. The word does not say which: the CPU and the
// memory manager fail pods with it, too.
const reasonOfKubelet = "UnexpectedAdmissionError"

// isRejected reports whether kubelet has rejected a pod of our scheduler for its GPUs.
func isRejected(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != reasonOfKubelet || !g8s.IsOurScheduler(pod.Spec.SchedulerName) || pod.Spec.NodeName == "" {
		return false
	}
	asks, err := gpu.RequestOf(pod)
	return err == nil && !asks.IsZero() && isAboutGPUs(pod)
}

// isAboutGPUs reports whether the message is of kubelet's device manager, and about GPUs. The manager names the resource, except where the call of
// a plugin has failed: of such a pod it must be the only resource that a plugin gives.
//
// A rejection by another manager says nothing about the agent. Such a pod would be rejected there again, so it also costs its job a retry as usual.
func isAboutGPUs(pod *corev1.Pod) bool {
	message := pod.Status.Message
	for _, resource := range []string{g8s.ResourceGPU, g8s.ResourceSharedGPU, g8s.ResourceMIGPrefix} {
		if strings.Contains(message, resource) {
			return true
		}
	}
	failedCall := strings.Contains(message, "rpc error: ") || strings.Contains(message, "has been stopped")
	return failedCall && !asksForOtherDevices(pod)
}

// asksForOtherDevices reports whether a pod asks for what the device plugin of something else than GPUs gives.
func asksForOtherDevices(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), corev1.ResourceDefaultNamespacePrefix) && !g8s.IsGPU(name) {
					return true
				}
			}
		}
	}
	return false
}

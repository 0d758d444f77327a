package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// queueAnew puts pods where they belong in the queue by now: those of a gang that another leader has begun since they came. Where a pod
// stands may not change while it is in there, or the queue is out of order for good.
func queueAnew(waiting queue.SchedulingQueue, pods []*corev1.Pod) {
	for _, pod := range pods {
		if _, known := waiting.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup); known {
			waiting.Delete(klog.Background(), pod)
			waiting.Add(context.Background(), pod)
		}
	}
}

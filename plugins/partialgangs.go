package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// queueAnew queues pods again at their current position: those of a gang that another leader has begun since they arrived. The position of a
// queued pod must not change, or the queue stays out of order.
func queueAnew(waiting queue.SchedulingQueue, pods []*corev1.Pod) {
	for _, pod := range pods {
		if _, known := waiting.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup); known {
			waiting.Delete(klog.Background(), pod)
			waiting.Add(context.Background(), pod)
		}
	}
}

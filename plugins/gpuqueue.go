package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/plugins/gpuquota"
)

// gpuQueue is the scheduler's queue. To the pods that wait it reports a pod on a node that names other cards than before
// as one that leaves, so that no plugin has to register for each update of each running pod to hear of this one. When one leaves that
// kept others from nodes by its anti-affinity, it wakes those.
type gpuQueue struct {
	queue.SchedulingQueue
	quotas *follow.Quotas
	// first tells of a pod whether it is the one of its gang that is tried.
	first    func(*corev1.Pod) bool
	confined *confinedPods
}

// AddUnschedulablePodIfNotPresent implements queue.SchedulingQueue.
func (q gpuQueue) AddUnschedulablePodIfNotPresent(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	q.confined.recordRejection(info)
	return q.SchedulingQueue.AddUnschedulablePodIfNotPresent(logger, info, cycle) //nolint:wrapcheck // it is in the queue's place
}

// Update implements queue.SchedulingQueue.
func (q gpuQueue) Update(ctx context.Context, before, after *corev1.Pod) {
	q.SchedulingQueue.Update(ctx, before, after)
	q.confined.replaceObject(after)
}

// Delete implements queue.SchedulingQueue.
func (q gpuQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.SchedulingQueue.Delete(logger, pod)
	q.confined.forgetPod(pod.UID)
}

// MoveAllToActiveOrBackoffQueue implements queue.SchedulingQueue. kube-scheduler calls it after an event has reached its cache. GPUQuotas
// hear of a pod in their own time, which may be later: who is woken would be turned away once more, and woken by nothing else.
func (q gpuQueue) MoveAllToActiveOrBackoffQueue(
	logger klog.Logger, event fwk.ClusterEvent, before, after any, preCheck queue.PreEnqueueCheck,
) {
	for _, object := range []any{before, after} {
		if pod, ok := object.(*corev1.Pod); ok {
			q.quotas.UpdatePod(pod)
		}
	}
	q.moveReached(logger, event, before, after, preCheck)
	if namesOtherGPUs(before, after) {
		q.moveReached(logger, framework.EventAssignedPodDelete, before, nil, preCheck)
	}
	if kept := unblockedBy(before, after); kept != nil {
		q.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, antiAffinityGone, nil, nil, func(pod *corev1.Pod) bool { return kept(pod) && q.first(pod) })
	}
}

// moveReached moves the pods that an event can concern.
func (q gpuQueue) moveReached(logger klog.Logger, event fwk.ClusterEvent, before, after any, preCheck queue.PreEnqueueCheck) {
	q.confined.mu.RLock()
	defer q.confined.mu.RUnlock()
	q.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, event, before, after, q.confined.filterByReach(event, before, after, preCheck))
}

// quotasOf are those of a scheduler, nil for none.
func quotasOf(sched *scheduler.Scheduler) *follow.Quotas {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			if quotas, ok := plugin.(*gpuquota.Plugin); ok {
				return quotas.Quotas() // all profiles have the same
			}
		}
	}
	return nil
}

// namesOtherGPUs reports whether a pod on a node names other cards than before. While it names none, it counts as the worst that
// it can hold.
func namesOtherGPUs(before, after any) bool {
	then, okThen := before.(*corev1.Pod)
	now, okNow := after.(*corev1.Pod)
	return okThen && okNow && then.Spec.NodeName != "" &&
		then.Annotations[names.AnnotationGPUDevices] != now.Annotations[names.AnnotationGPUDevices]
}

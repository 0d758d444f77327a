// Package choice makes kube-scheduler choose a node outside of its loop: for simulations, benchmarks and tests.
package choice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// ChooseNode makes a scheduler choose a node for a pod, by a profile that need not be one of its own, in the current state of its cache. It returns the
// errors of [scheduler.Scheduler.SchedulePod], including a FitError, and an error if the pod cannot be read.
func ChooseNode(ctx context.Context, sched *scheduler.Scheduler, profile framework.Framework, state fwk.CycleState, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return scheduler.ScheduleResult{}, fmt.Errorf("reading pod %s: %w", klog.KObj(pod), err)
	}
	snapshot, ok := profile.SnapshotSharedLister().(*cache.Snapshot)
	if !ok {
		return scheduler.ScheduleResult{}, fmt.Errorf("the snapshot is a %T, want kube-scheduler's", profile.SnapshotSharedLister())
	}
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return scheduler.ScheduleResult{}, fmt.Errorf("taking a snapshot: %w", err)
	}
	queued := &framework.QueuedPodInfo{PodInfo: info, PodSignature: profile.SignPod(ctx, pod)}
	return sched.SchedulePod(ctx, profile, state, queued) //nolint:wrapcheck // as kube-scheduler gives it
}

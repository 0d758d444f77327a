// Package index defines the cache indexes by which controllers find pods, Jobs and nodes.
package index

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

// The indexes of pods.
const (
	// JobUID finds pods by the UID of the Job that controls them.
	JobUID = "job-uid"
	// Node finds pods by the name of their node.
	Node = "node-name"
	// WaitingPool finds pods that wait for GPUs, by pool.
	WaitingPool = "waiting-pool"
)

// WaitsFor finds Jobs by the names of their dependencies.
const WaitsFor = "waits-for"

// InPool selects nodes by the label of their pool. For pool default it selects all, because its nodes need no label: gpu.PoolOf decides.
func InPool(pool string) client.MatchingLabels {
	if pool == g8s.DefaultPool {
		return client.MatchingLabels{}
	}
	return client.MatchingLabels{g8s.LabelPool: pool}
}

// Register adds the indexes to a cache, before it starts.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	add := func(name string, value func(*corev1.Pod) string) error {
		err := indexer.IndexField(ctx, &corev1.Pod{}, name, func(object client.Object) []string {
			if pod, ok := object.(*corev1.Pod); ok {
				if v := value(pod); v != "" {
					return []string{v}
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing pods by %s: %w", name, err)
		}
		return nil
	}
	waits := func(object client.Object) []string { return jobplan.PendingDependencies(object) }
	return errors.Join(
		indexer.IndexField(ctx, &batchv1.Job{}, WaitsFor, waits),
		add(JobUID, func(pod *corev1.Pod) string {
			if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
				return string(owner.UID)
			}
			return ""
		}),
		add(Node, func(pod *corev1.Pod) string { return pod.Spec.NodeName }),
		add(WaitingPool, waitingPool),
	)
}

// waitingPool returns the pool whose GPUs a pod waits for, "" if it does not wait.
func waitingPool(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending || !g8s.IsOurScheduler(pod.Spec.SchedulerName) {
		return ""
	}
	return gpu.PodPool(pod)
}

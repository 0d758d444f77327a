package defrag

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// Read gathers the facts, in four requests. Its caller must be able to read nodes, and pods and disruption budgets of
// all namespaces.
func Read(ctx context.Context, client kubernetes.Interface, now time.Time) (*Facts, error) {
	const fromCache = "0" // some milliseconds old, and read from memory
	facts := &Facts{Now: now}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		facts.Nodes = list.Items
		return nil
	})
	group.Go(func() error {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			ResourceVersion: fromCache, FieldSelector: inventory.HoldsNode,
		})
		if err != nil {
			return fmt.Errorf("listing the pods on nodes: %w", err)
		}
		facts.Running = list.Items
		return nil
	})
	group.Go(func() error {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			ResourceVersion: fromCache, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "").String(),
		})
		if err != nil {
			return fmt.Errorf("listing the pods that wait: %w", err)
		}
		facts.Waiting = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !waits(&pod) })
		return nil
	})
	group.Go(func() error {
		list, err := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: fromCache})
		if err != nil {
			return fmt.Errorf("listing pod disruption budgets: %w", err)
		}
		facts.Budgets = list.Items
		return nil
	})
	return facts, group.Wait()
}

// waits reports whether our scheduler has found no node for a pod that asks for GPUs.
func waits(pod *corev1.Pod) bool {
	request, _ := gpu.RequestOf(pod) // a request that cannot be read is not zero
	return pod.Spec.SchedulerName == names.SchedulerName && pod.DeletionTimestamp == nil && !request.IsZero() &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		})
}

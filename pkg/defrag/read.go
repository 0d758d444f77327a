package defrag

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Read gathers the facts with six requests. The caller must be able to read nodes, and pods and disruption budgets of all namespaces.
func Read(ctx context.Context, client kubernetes.Interface, now time.Time) (*Facts, error) {
	cached := snapshot.Scope{Cached: true}
	read, err := snapshot.Read(ctx, client, snapshot.Nodes(cached), snapshot.Pods(snapshot.Scope{Fields: snapshot.LivePods, Cached: true}),
		snapshot.Budgets(cached), snapshot.GPUReservations().IfAllowed(), snapshot.GPUQuotas().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return nil, err
	}
	return FactsOf(read), nil
}

// FactsOf sorts the pods of a snapshot into running and unschedulable ones. It omits pods that a GPUQuota keeps waiting, because moves would not help
// them.
func FactsOf(s *snapshot.Snapshot) *Facts {
	facts := &Facts{Now: s.Now, Nodes: s.Nodes, Budgets: s.Budgets, Reservations: reservation.BookOf(s.GPUReservations)}
	quotas := make([]gpuquota.Quota, len(s.GPUQuotas))
	for i := range s.GPUQuotas {
		quotas[i] = gpuquota.QuotaOf(&s.GPUQuotas[i])
	}
	account := gpuquota.AccountOf(quotas, s.Nodes, s.Pods)
	for i := range s.Pods {
		switch pod := &s.Pods[i]; {
		case pod.Spec.NodeName != "":
			facts.Running = append(facts.Running, *pod)
		case isUnschedulable(pod) && !account.BlocksPod(pod):
			facts.Waiting = append(facts.Waiting, *pod)
		}
	}
	return facts
}

// isUnschedulable reports whether our scheduler found no node for a pod that requests GPUs.
func isUnschedulable(pod *corev1.Pod) bool {
	request, _ := gpu.RequestOf(pod) // a request that cannot be read is not zero
	c := condition.OfPod(pod, corev1.PodScheduled)
	return names.IsOurScheduler(pod.Spec.SchedulerName) && pod.DeletionTimestamp == nil && !request.IsZero() &&
		c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

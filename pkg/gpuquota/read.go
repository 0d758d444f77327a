package gpuquota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// mostGPUs is more than any node has. Larger requests count as this many: otherwise the sum of a few pods could overflow to a negative value, and a
// user who sets the node of a pod directly would reduce the usage of a quota.
const mostGPUs = 1 << 32

// WholeGPUs returns how many whole GPUs a pod requests. An unreadable request counts as none, because no node accepts it.
func WholeGPUs(pod *corev1.Pod) int64 {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return 0
	}
	return min(request.Whole, mostGPUs)
}

// PlaceOf returns the place of a pod on a node. For an unknown node, nil, it is the pool that the pod requests.
func PlaceOf(pod *corev1.Pod, node *corev1.Node) Place {
	if node == nil {
		return Place{Pool: gpu.PodPool(pod)}
	}
	return Place{Pool: gpu.PoolOf(node), Type: gpu.TypeOf(node)}
}

// HoldingOf returns the holding of a pod on a node, as a unit of its own.
func HoldingOf(pod *corev1.Pod, node *corev1.Node) Holding {
	return Holding{
		Pod: pod.UID, Namespace: pod.Namespace, Unit: string(pod.UID), At: PlaceOf(pod, node), GPUs: WholeGPUs(pod),
		Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time,
	}
}

// AccountOf returns the account of all bound pods, counted as in the scheduler, for queries outside of it.
func AccountOf(quotas []Quota, nodes []corev1.Node, pods []corev1.Pod) *Account {
	account, byName := NewAccount(quotas), make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			account.SetHoldingOn(byName[pods[i].Spec.NodeName], &pods[i])
		}
	}
	return account
}

// SetHoldingOn records the holding of a pod on a node, nil for an unknown node. The members of a gang form a unit.
func (a *Account) SetHoldingOn(node *corev1.Node, pod *corev1.Pod) {
	if gpu.HasEnded(pod) {
		return
	}
	h := HoldingOf(pod, node)
	if unit := gang.UnitOf(pod); unit != "" {
		h.Unit = unit
	}
	a.SetHolding(h)
}

// JobOf returns a key that is equal for pods that count as one job: those of one workload, or one pod.
func JobOf(pod *corev1.Pod) string {
	w := gang.WorkloadOf(pod)
	if w.IsPodAlone() {
		return pod.Namespace + "/" + pod.Name
	}
	return pod.Namespace + "/" + w.Kind + "/" + w.Name
}

// DemandOf returns the demand of a waiting pod, and false if it requests no whole GPUs or the scheduler does not consider it.
func DemandOf(pod *corev1.Pod) (Demand, bool) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending ||
		!names.IsOurScheduler(pod.Spec.SchedulerName) || len(pod.Spec.SchedulingGates) > 0 {
		return Demand{}, false
	}
	out := Demand{Namespace: pod.Namespace, Pool: gpu.PodPool(pod), Job: JobOf(pod), GPUs: WholeGPUs(pod), Since: pod.CreationTimestamp.Time}
	if known, err := gpu.PodTypes(pod); err == nil {
		out.Types = known.Accepted
	}
	return out, out.GPUs > 0
}

// BlocksPod reports whether a quota alone keeps a pod waiting, regardless of free GPUs.
func (a *Account) BlocksPod(pod *corev1.Pod) bool {
	ask := Ask{Namespace: pod.Namespace, Pool: gpu.PodPool(pod), GPUs: WholeGPUs(pod), Pods: []types.UID{pod.UID}}
	var accepted []string
	if known, err := gpu.PodTypes(pod); err == nil {
		accepted = known.Accepted
	}
	return ExcessFor(a.ExceededQuotas(&ask), accepted) != nil
}

package gpuquota

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// mostGPUs is more than any node has. What asks for more asks for so many, or the sum of a few pods would be below zero: a user's pods
// would hold less than nothing of a quota, who names their node himself.
const mostGPUs = 1 << 32

// WholeGPUs is how many whole GPUs a pod asks for. What cannot be read asks for none: no node takes it.
func WholeGPUs(pod *corev1.Pod) int64 {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return 0
	}
	return min(request.Whole, mostGPUs)
}

// PlaceOf is the place of a pod on a node. On one that is not known, nil, it is what the pod asks for.
func PlaceOf(pod *corev1.Pod, node *corev1.Node) Place {
	if node == nil {
		return Place{Pool: gpu.PodPool(pod)}
	}
	return Place{Pool: gpu.PoolOf(node), Type: gpu.TypeOf(node)}
}

// HoldingOf is what a pod holds on a node. It leaves alone, unless it is put in a unit.
func HoldingOf(pod *corev1.Pod, node *corev1.Node) Holding {
	return Holding{
		Pod: pod.UID, Namespace: pod.Namespace, Unit: string(pod.UID), At: PlaceOf(pod, node), GPUs: WholeGPUs(pod),
		Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time,
	}
}

// AccountOf is who holds what, of those pods that are on nodes: as the scheduler counts it, for those who ask beside it.
func AccountOf(quotas []Quota, nodes []corev1.Node, pods []corev1.Pod) *Account {
	account, byName := NewAccount(quotas), make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			account.PutOn(byName[pods[i].Spec.NodeName], &pods[i])
		}
	}
	return account
}

// PutOn notes what a pod holds on a node, nil for one that is not known. The pods of one owner in a PodGroup leave together.
func (a *Account) PutOn(node *corev1.Node, pod *corev1.Pod) {
	if gpu.HasEnded(pod) {
		return
	}
	h := HoldingOf(pod, node)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && pod.Labels[names.LabelPodGroup] != "" {
		h.Unit = pod.Namespace + "/" + pod.Labels[names.LabelPodGroup] + "/" + string(owner.UID)
	}
	a.Put(h)
}

// JobOf is equal for pods that are counted as one job: those of a job of gpuctl, or one pod.
func JobOf(pod *corev1.Pod) string {
	if job := pod.Labels[names.LabelJob]; job != "" {
		return pod.Namespace + "/" + pod.Labels[names.LabelJobType] + "/" + job
	}
	return pod.Namespace + "/" + pod.Name
}

// DemandOf is what a pod waits for, and false for one that waits for no whole GPUs, or that the scheduler does not look at.
func DemandOf(pod *corev1.Pod) (Demand, bool) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending ||
		pod.Spec.SchedulerName != names.SchedulerName || len(pod.Spec.SchedulingGates) > 0 {
		return Demand{}, false
	}
	out := Demand{Namespace: pod.Namespace, Pool: gpu.PodPool(pod), Job: JobOf(pod), GPUs: WholeGPUs(pod), Since: pod.CreationTimestamp.Time}
	if known, err := gpu.PodTypes(pod); err == nil {
		out.Types = known.Accepted
	}
	return out, out.GPUs > 0
}

// Keeps reports whether a quota keeps a pod waiting by itself, whatever is free on nodes.
func (a *Account) Keeps(pod *corev1.Pod) bool {
	ask := Ask{Namespace: pod.Namespace, Pool: gpu.PodPool(pod), GPUs: WholeGPUs(pod), Pods: []types.UID{pod.UID}}
	var accepted []string
	if known, err := gpu.PodTypes(pod); err == nil {
		accepted = known.Accepted
	}
	return ExcessFor(a.Over(&ask), accepted) != nil
}

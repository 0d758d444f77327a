package cycle

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/amounts"
)

// ResourceRequest is an amount of one resource, in the scheduler's unit: CPU in thousandths.
type ResourceRequest struct {
	Resource corev1.ResourceName
	Amount   int64
}

// PodResourceRequests returns what a pod requests from its node: the positive amounts.
func PodResourceRequests(pod *corev1.Pod) []ResourceRequest {
	asks := []ResourceRequest{{corev1.ResourcePods, 1}}
	for name, amount := range amounts.Requests(pod) {
		units := amount.Value()
		if name == corev1.ResourceCPU {
			units = amount.MilliValue()
		}
		if units > 0 {
			asks = append(asks, ResourceRequest{name, units})
		}
	}
	return asks
}

// AmountOf returns how much of a resource a node offers and how much of it is taken.
func AmountOf(info fwk.NodeInfo, name corev1.ResourceName) (offered, taken int64) {
	all, used := info.GetAllocatable(), info.GetRequested()
	switch name {
	case corev1.ResourcePods:
		return int64(all.GetAllowedPodNumber()), int64(len(info.GetPods()))
	case corev1.ResourceCPU:
		return all.GetMilliCPU(), used.GetMilliCPU()
	case corev1.ResourceMemory:
		return all.GetMemory(), used.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return all.GetEphemeralStorage(), used.GetEphemeralStorage()
	}
	return all.GetScalarResources()[name], used.GetScalarResources()[name]
}

// OfferedBy returns how much of a resource a node offers, as AmountOf has it.
func OfferedBy(node *corev1.Node, name corev1.ResourceName) int64 {
	amount := node.Status.Allocatable[name]
	if name == corev1.ResourceCPU {
		return amount.MilliValue()
	}
	return amount.Value()
}

// HeldBy returns how much of a resource pods hold of their node, as NodeInfo counts it: during an in-place resize this is what the node has
// allocated, which may exceed the current request.
func HeldBy(pods []fwk.PodInfo, name corev1.ResourceName) (sum int64) {
	for _, pod := range pods {
		sum += min(heldBy(pod, name), maxSum-sum)
	}
	return sum
}

func heldBy(pod fwk.PodInfo, name corev1.ResourceName) int64 {
	held := pod.CalculateResource().Resource
	switch name {
	case corev1.ResourcePods:
		return 1
	case corev1.ResourceCPU:
		return held.GetMilliCPU()
	case corev1.ResourceMemory:
		return held.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return held.GetEphemeralStorage()
	}
	return held.GetScalarResources()[name]
}

// maxSum is the limit of a sum: 64 TiB, so that the sums of a gang can be added up.
const maxSum = 1 << 46

// SumOf adds up the requests of one resource, without overflow.
func SumOf(asks []ResourceRequest, resource corev1.ResourceName) (sum int64) {
	for _, ask := range asks {
		if ask.Resource == resource {
			sum += min(ask.Amount, maxSum-sum)
		}
	}
	return sum
}

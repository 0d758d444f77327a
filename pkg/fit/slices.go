package fit

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// FreeOf returns how much of a resource remains for a new pod; it may be below zero. For MIG slices that the node lists, it is no more than the
// scheduler can allocate: Kubernetes counts what the kubelet offers, which for some seconds includes slices of a broken GPU.
func (n *Node) FreeOf(name corev1.ResourceName) resource.Quantity {
	left := n.Free[name]
	if profile, ok := strings.CutPrefix(string(name), names.ResourceMIGPrefix); ok && n.namesSlices() {
		if free := n.allocator.FreeSlices(n.slicesUsed(), profile); left.CmpInt64(free) > 0 {
			return *resource.NewQuantity(free, resource.DecimalSI)
		}
	}
	return left
}

// FreeSlices returns how many MIG slices of a profile a new pod could get.
func (n *Node) FreeSlices(profile string) int64 {
	left := n.FreeOf(names.ResourceMIGPrefix + corev1.ResourceName(profile))
	if left.Sign() <= 0 { // far below zero, with extreme requests, the number wraps
		return 0
	}
	return left.Value()
}

// namesSlices reports whether the node lists its MIG slices. If it does not, only Kubernetes counts them.
func (n *Node) namesSlices() bool { return n.allocator.NamesSlices() }

// slicesUsed returns the usage of the node's MIG slices. It is counted each time: two pods may claim one slice, so a slice could not be
// subtracted again.
func (n *Node) slicesUsed() *gpu.SlicesUsed {
	var used gpu.SlicesUsed
	for _, there := range n.pods {
		used.Add(there.slices)
	}
	return &used
}

// brokenSlices reports that the node has as many MIG slices as requested, but too few of them on healthy GPUs. [Request.shortages] detects too
// few in total, or too few free ones.
func (r *Request) brokenSlices(n *Node) gpu.Reason {
	if !r.Demand.NeedsSlices() || !n.namesSlices() {
		return gpu.Reason{}
	}
	if reason := n.allocator.SliceShortage(&gpu.SlicesUsed{}, &r.Demand); reason.Total >= reason.Asked {
		return reason
	}
	return gpu.Reason{}
}

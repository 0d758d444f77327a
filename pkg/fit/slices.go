package fit

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// FreeOf returns how much of a resource the pods leave to a new one; below zero is possible. Of MIG slices, where the node names them,
// it is no more than the scheduler can give out: Kubernetes counts what kubelet offers, and that are for some seconds slices of a card
// that has broken.
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
	if left.Sign() <= 0 { // far below zero, where pods ask for all there could be, a number wraps
		return 0
	}
	return left.Value()
}

// namesSlices reports whether the node tells which MIG slices it has. Where it does not, Kubernetes counts them alone.
func (n *Node) namesSlices() bool { return n.allocator.Sliced() }

// slicesUsed is what the pods hold of the node's MIG slices. It is counted anew each time: two pods may claim one slice, so that none
// could be taken off again.
func (n *Node) slicesUsed() *gpu.SlicesUsed {
	var used gpu.SlicesUsed
	for _, there := range n.pods {
		used.Add(there.slices)
	}
	return &used
}

// brokenSlices tells that the node has as many MIG slices as are asked for, and too few of them on healthy cards. Too few at all, or too
// few free, are what [Request.shortages] finds.
func (r *Request) brokenSlices(n *Node) gpu.Reason {
	if !r.Demand.NeedsSlices() || !n.namesSlices() {
		return gpu.Reason{}
	}
	if reason := n.allocator.SliceShortage(&gpu.SlicesUsed{}, &r.Demand); reason.Total >= reason.Asked {
		return reason
	}
	return gpu.Reason{}
}

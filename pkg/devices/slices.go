package devices

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// sliceReport is what the agent of a node reported about its MIG slices. It is parsed on first use: pods whose slices we chose do not need it. nil
// stands for a node that does not list its slices.
type sliceReport struct {
	node   *corev1.Node
	read   bool
	slices []gpu.Slice
}

func reportOf(node *corev1.Node, allocator *gpu.Allocator) *sliceReport {
	if !allocator.NamesSlices() {
		return nil
	}
	return &sliceReport{node: node}
}

// annotationText returns the report, unparsed.
func (r *sliceReport) annotationText() string {
	if r == nil {
		return ""
	}
	return r.node.Annotations[names.AnnotationSlices]
}

func (r *sliceReport) reportedSlices() []gpu.Slice {
	if !r.read {
		r.read, r.slices = true, gpu.SlicesOf(r.node)
	}
	return r.slices
}

// slicesOf returns which MIG slices a pod on a node holds.
func slicesOf(pod *corev1.Pod, choice *Choice, allocator *gpu.Allocator, reported *sliceReport) *gpu.SliceHolding {
	switch {
	case !allocator.NamesSlices():
		return nil
	case choice != nil && choice.allocator == allocator:
		return choice.slices
	case choice != nil && len(choice.Slices) > 0:
		if held := allocator.ResolveSlices(&choice.demand, choice.Slices); held.IsKnown() {
			return held
		}
	}
	return allocator.SlicesHeldBy(pod, reported.reportedSlices)
}

// slicesFor returns which MIG slices a pod nominated to the node would get now, or unspecified ones if there are too few.
func (v *View) slicesFor(demand *gpu.Demand) *gpu.SliceHolding {
	if !v.Allocator.NamesSlices() || !demand.NeedsSlices() {
		return nil
	}
	allocation, reason := v.Allocator.AllocateSlices(&v.slices, demand)
	if !reason.IsZero() {
		return v.Allocator.ResolveSlices(demand, nil)
	}
	return allocation.Holding
}

// SliceShortage returns why a node has too few MIG slices for a demand. It is zero if there are enough, and on a node that does not list its
// slices: there nothing is counted, which dry runs of preemption would do for each pod that they remove.
func (l *Cache) SliceShortage(demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	if node := info.Node(); node == nil || !l.AllocatorFor(node).NamesSlices() {
		return gpu.Reason{}
	}
	view := l.NodeView(info)
	return view.Allocator.SliceShortage(&view.slices, demand)
}

// takeSlices adds the MIG slices to a choice, or returns why there are none.
func (c *Choice) takeSlices(view *View) gpu.Reason {
	if !view.Allocator.NamesSlices() || !c.demand.NeedsSlices() {
		return gpu.Reason{}
	}
	allocation, reason := view.Allocator.AllocateSlices(&view.slices, &c.demand)
	if !reason.IsZero() {
		return reason
	}
	c.Slices, c.slices = view.Allocator.BuildSliceAssignment(&c.demand, &allocation), allocation.Holding
	c.idle = view.Allocator.IdleSliced(&view.slices, allocation.Holding)
	return gpu.Reason{}
}

// Encode writes the choice in the form of the annotation g8s.host/gpu-devices.
func (c *Choice) Encode() (string, error) {
	return (&gpu.Choice{GPUs: c.Assignment, Slices: c.Slices}).Encode()
}

// reasonOfSlices returns the reason for the chosen MIG slices.
func (c *Choice) reasonOfSlices() string {
	return fmt.Sprintf("slices of GPUs that are in use already where there are such, and %d GPUs in MIG mode stay idle", c.idle)
}

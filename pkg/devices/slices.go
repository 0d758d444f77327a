package devices

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// report is what the agent of a node reported about its MIG slices. It is parsed on first use: pods whose slices we chose do not need it. nil
// stands for a node that does not list its slices.
type report struct {
	node *corev1.Node
	read bool
	told []gpu.Slice
}

func reportOf(node *corev1.Node, allocator *gpu.Allocator) *report {
	if !allocator.Sliced() {
		return nil
	}
	return &report{node: node}
}

// text returns the report, unparsed.
func (r *report) text() string {
	if r == nil {
		return ""
	}
	return r.node.Annotations[names.AnnotationSlices]
}

func (r *report) slices() []gpu.Slice {
	if !r.read {
		r.read, r.told = true, gpu.SlicesOf(r.node)
	}
	return r.told
}

// slicesOf returns which MIG slices a pod on a node holds.
func slicesOf(pod *corev1.Pod, choice *Choice, allocator *gpu.Allocator, reported *report) *gpu.SliceHolding {
	switch {
	case !allocator.Sliced():
		return nil
	case choice != nil && choice.allocator == allocator:
		return choice.slices
	case choice != nil && len(choice.Slices) > 0:
		if held := allocator.ResolveSlices(&choice.demand, choice.Slices); held.Known() {
			return held
		}
	}
	return allocator.SlicesHeldBy(pod, reported.slices)
}

// slicesFor returns which MIG slices a pod nominated to the node would get now, or unspecified ones if there are too few.
func (v *View) slicesFor(demand *gpu.Demand) *gpu.SliceHolding {
	if !v.Allocator.Sliced() || !demand.NeedsSlices() {
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
func (l *Ledger) SliceShortage(demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	if node := info.Node(); node == nil || !l.Allocator(node).Sliced() {
		return gpu.Reason{}
	}
	view := l.Node(info)
	return view.Allocator.SliceShortage(&view.slices, demand)
}

// takeSlices adds the MIG slices to a choice, or returns why there are none.
func (c *Choice) takeSlices(view *View) gpu.Reason {
	if !view.Allocator.Sliced() || !c.demand.NeedsSlices() {
		return gpu.Reason{}
	}
	allocation, reason := view.Allocator.AllocateSlices(&view.slices, &c.demand)
	if !reason.IsZero() {
		return reason
	}
	c.Slices, c.slices = view.Allocator.SliceAssignment(&c.demand, &allocation), allocation.Holding
	c.idle = view.Allocator.IdleSliced(&view.slices, allocation.Holding)
	return gpu.Reason{}
}

// Encode writes the choice in the form of the annotation g8s.host/gpu-devices.
func (c *Choice) Encode() (string, error) {
	return (&gpu.Choice{Cards: c.Assignment, Slices: c.Slices}).Encode()
}

// reasonOfSlices returns the reason for the chosen MIG slices.
func (c *Choice) reasonOfSlices() string {
	return fmt.Sprintf("slices of GPUs that are in use already where there are such, and %d GPUs in MIG mode stay idle", c.idle)
}

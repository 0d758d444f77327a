package binding

import "fmt"

// Reason is why a container must not start, in one word. There are few, so that they can be counted.
type Reason string

// The reasons.
const (
	// UnknownSlots: kubelet's checkpoint has no container with these slots.
	UnknownSlots Reason = "unknown-slots"
	// SlotsTwice: kubelet gave the slots to two pods, and neither seems to be about to start a container.
	SlotsTwice Reason = "slots-twice"
	// OtherPlugin: another device plugin had allocated the devices, or those of a running container.
	OtherPlugin Reason = "other-plugin"
	// UnknownPod: the API server has reported no such pod.
	UnknownPod Reason = "unknown-pod"
	// DeletedPod: the pod is terminating, and must not wait for GPUs.
	DeletedPod Reason = "deleted-pod"
	// Unassigned: the scheduler chose no GPUs for the pod.
	Unassigned Reason = "unassigned"
	// BadAssignment: the scheduler's choice does not fit the container.
	BadAssignment Reason = "bad-assignment"
	// UnknownGPU: the node has no such GPU.
	UnknownGPU Reason = "unknown-card"
	// SickGPU: the GPU must not be used.
	SickGPU Reason = "sick-card"
	// HeldGPU: another pod holds the GPU.
	HeldGPU Reason = "held-card"
	// NoFreeGPU: the agent has to choose and no GPU is free.
	NoFreeGPU Reason = "no-free-card"
	// Unfit: the node's kubelet or runtime cannot pass GPUs to containers.
	Unfit Reason = "unfit"
	// Unreadable: required data could not be read.
	Unreadable Reason = "unreadable"
	// Unwritable: the spec could not be written.
	Unwritable Reason = "unwritable"
)

// Reasons are all of them, for metrics that begin at 0.
var Reasons = []Reason{
	UnknownSlots, SlotsTwice, OtherPlugin, UnknownPod, DeletedPod, Unassigned, BadAssignment, UnknownGPU, SickGPU, HeldGPU, NoFreeGPU,
	Unfit, Unreadable, Unwritable,
}

// Refusal is why a container must not start.
type Refusal struct {
	Reason Reason
	// Text is shown in the pod's status.
	Text string
}

// IsTransient reports whether the reason usually goes away within seconds without intervention. Waiting is then worthwhile, since kubelet retries only
// after some ten seconds.
func (r *Refusal) IsTransient() bool {
	switch r.Reason {
	case UnknownSlots, SlotsTwice, UnknownPod, HeldGPU, NoFreeGPU, Unreadable:
		return true
	}
	return false
}

func newRefusal(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

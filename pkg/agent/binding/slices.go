package binding

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// resolveSlices returns the MIG slices that the scheduler chose for a container. If one of them no longer exists, since the GPU was repartitioned, the
// container gets other free ones, and keeps them when it restarts. A container of a pod that our scheduler placed here without a choice does the
// same.
func (d *decision) resolveSlices(claim *checkpoint.Claim) ([]gpu.Device, []string, *Refusal) {
	named, refusal := d.namedSlices(claim)
	if refusal != nil {
		return nil, nil, refusal
	}
	if len(named) > 0 && d.arePresent(claim, named) {
		return named, deviceUUIDs(named), nil
	}
	if before := d.findRecord(claim); before != nil && !d.hasLostDevices(claim, before) {
		return before.Devices, before.All, nil
	}
	if _, known := d.Pods[d.uid]; known && !d.isPlacedByUs() && d.Unassigned != GiveFree {
		return nil, nil, d.refuseUnassigned()
	}
	return d.chooseGPUs(claim)
}

// isPlacedByUs reports whether our scheduler placed the pod here.
func (d *decision) isPlacedByUs() bool { return d.pod.Decided || d.pod.Assignment != "" }

// namedSlices returns the slices that the scheduler chose for a container, none where it chose none for it.
func (d *decision) namedSlices(claim *checkpoint.Claim) ([]gpu.Device, *Refusal) {
	if d.pod.Assignment == "" {
		return nil, nil
	}
	choice, err := gpu.ParseChoice(d.pod.Assignment)
	if err != nil {
		return nil, newRefusal(BadAssignment, "pod %s/%s: annotation %s: %v", d.pod.Namespace, d.pod.Name, names.AnnotationGPUDevices, err)
	}
	var devices []gpu.Device
	for _, held := range choice.Slices[claim.Container] {
		if names.ResourceMIGPrefix+held.Profile == claim.Resource {
			devices = append(devices, gpu.Device{UUID: held.UUID, Index: held.GPU})
		}
	}
	if len(devices) != len(claim.Slots) && len(choice.Slices) > 0 {
		return nil, newRefusal(BadAssignment, "pod %s/%s: container %s has %d %s of kubelet and %d of the scheduler", d.pod.Namespace, d.pod.Name,
			claim.Container, len(claim.Slots), claim.Resource, len(devices))
	}
	return devices, nil
}

// arePresent reports whether the node has all of some slices.
func (d *decision) arePresent(claim *checkpoint.Claim, named []gpu.Device) bool {
	return !slices.ContainsFunc(named, func(device gpu.Device) bool { return d.GPUs[device.UUID].Resource != claim.Resource })
}

// markAssignedSlices adds the pod's assigned slices to its own if they are for the container. It adds them to the taken ones if they are for a container that runs
// beside it, which has other slots from kubelet.
func (d *decision) markAssignedSlices(claim *checkpoint.Claim, own, taken map[string]bool) {
	choice, err := gpu.ParseChoice(d.pod.Assignment)
	if err != nil {
		return
	}
	for _, held := range choice.Slices[claim.Container] {
		own[held.UUID] = true
	}
	for i := range d.Claims {
		other := &d.Claims[i]
		if other.Pod != claim.Pod || other.Resource != claim.Resource || hasOverlap(other.Slots, claim.Slots) {
			continue
		}
		for _, held := range choice.Slices[other.Container] {
			taken[held.UUID] = true
		}
	}
}

// addAssignedUUIDs adds the devices of a pod's annotation to a set: GPUs and slices.
func addAssignedUUIDs(pod *Pod, named map[string]bool) {
	choice, err := gpu.ParseChoice(pod.Assignment)
	if err != nil {
		return // it will get none
	}
	for _, devices := range choice.GPUs {
		for i := range devices {
			named[devices[i].UUID] = true
		}
	}
	for _, held := range choice.Slices {
		for i := range held {
			named[held[i].UUID] = true
		}
	}
}

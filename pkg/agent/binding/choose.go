package binding

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// chooseGPUs takes the first healthy GPUs that no pod holds and that the scheduler has assigned to no pod. It prefers those that the pod has for another
// container with slots of this one, as kubelet counts them once, and slices that were chosen for this one.
func (d *decision) chooseGPUs(claim *checkpoint.Claim) ([]gpu.Device, []string, *Refusal) {
	if refusal := d.checkUnrecorded(claim.Resource); refusal != nil {
		return nil, nil, refusal
	}
	taken, own := d.assignedToClaimants(), map[string]bool{}
	d.markAssignedSlices(claim, own, taken)
	for i := range d.Records {
		if record := &d.Records[i]; record.Pod == d.uid {
			for _, uuid := range record.UUIDs() {
				own[uuid] = true
				taken[uuid] = taken[uuid] || !d.isReusable(record, claim)
			}
		}
	}
	var devices []gpu.Device
	for _, uuid := range d.inOrder(own) {
		card, device := d.GPUs[uuid], gpu.Device{UUID: uuid, Index: d.GPUs[uuid].Index}
		if card.Resource == claim.Resource && card.Health == gpu.Healthy && !taken[uuid] && len(devices) < len(claim.Slots) &&
			d.findOtherPodHolder(&device) == nil {
			devices = append(devices, device)
		}
	}
	if len(devices) < len(claim.Slots) {
		return nil, nil, newRefusal(NoFreeGPU, "pod %s/%s: container %s asks for %d %s, and only %d are free and healthy", d.pod.Namespace,
			d.pod.Name, claim.Container, len(claim.Slots), claim.Resource, len(devices))
	}
	return devices, deviceUUIDs(devices), nil
}

// inOrder returns the GPUs in the order of preference: the pod's own, then those that the scheduler has assigned to no pod, then those of pods that
// kubelet has not admitted yet, or that have ended.
func (d *decision) inOrder(own map[string]bool) []string {
	named := d.assignedToOthers(func(types.UID) bool { return true })
	rank := func(uuid string) int {
		switch {
		case own[uuid]:
			return 0
		case !named[uuid]:
			return 1
		}
		return 2
	}
	return slices.SortedFunc(maps.Keys(d.GPUs), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(d.GPUs[a].Index, d.GPUs[b].Index), cmp.Compare(a, b))
	})
}

// hasLostDevices reports whether a restarting container cannot have its former devices: they are gone, or were given to another pod while the runtime had ended
// this one. An unhealthy device is not lost, and is refused.
func (d *decision) hasLostDevices(claim *checkpoint.Claim, before *Record) bool {
	return slices.ContainsFunc(before.Devices, func(device gpu.Device) bool {
		card := d.GPUs[device.UUID]
		return card.Resource != claim.Resource && card.Shared != claim.Resource || d.findOtherPodHolder(&device) != nil
	})
}

// checkUnrecorded refuses to choose while a container runs without a record of its devices, which would be taken for free.
func (d *decision) checkUnrecorded(resource string) *Refusal {
	for i := range d.Claims {
		claim := &d.Claims[i]
		if claim.Resource == resource && d.Live[claim.Pod][claim.Container] && d.findRecord(claim) == nil {
			return newRefusal(Unreadable, "container %s of %s runs with %s, and no record says which: delete the pod", claim.Container,
				d.describePod(claim.Pod), resource)
		}
	}
	return nil
}

// isReusable reports whether the GPUs of a record can be given to another container of its pod: kubelet gave that one slots of the record's container,
// so the two never run at once.
func (d *decision) isReusable(record *Record, claim *checkpoint.Claim) bool {
	if record.Pod != claim.Pod {
		return false
	}
	for i := range d.Claims {
		other := &d.Claims[i]
		if other.Name == record.Name && other.Pod == record.Pod {
			return other.Resource == claim.Resource && hasOverlap(other.Slots, claim.Slots)
		}
	}
	return false
}

// assignedToClaimants returns the GPUs that the scheduler chose for pods for which kubelet has slots, whether or not they have started.
func (d *decision) assignedToClaimants() map[string]bool { return d.assignedToOthers(d.hasClaims) }

// assignedToOthers returns the GPUs that the scheduler chose for some of the other pods of the node.
func (d *decision) assignedToOthers(of func(types.UID) bool) map[string]bool {
	named := map[string]bool{}
	for uid, pod := range d.Pods {
		if pod.Assignment == "" || uid == d.uid || !of(uid) {
			continue
		}
		addAssignedUUIDs(&pod, named)
	}
	return named
}

// hasClaims reports whether kubelet has slots for a pod. It has none for ended pods, which the API server still has.
func (d *decision) hasClaims(uid types.UID) bool {
	return slices.ContainsFunc(d.Claims, func(c checkpoint.Claim) bool { return c.Pod == uid })
}

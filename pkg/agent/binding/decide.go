package binding

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Outcome is the change of the records when a container may start.
type Outcome struct {
	// Write are records to write, and Remove the names of those to remove.
	Write  []Record
	Remove []string
}

// Decide returns what to record before a container with these slots of a resource may be created.
//
// Containers of one pod can have the same slots one after the other: an init container, then those that start after it.
// kubelet does not say which of them is about to start, so there is a record for each that may. One that may not has none:
// should it be the one that starts, the runtime does not know its device. It is the same where kubelet gave the slots to two
// pods: each has a promise and a choice of its own.
func (s *Situation) Decide(resource string, slots []string) (Outcome, *Refusal) {
	claims, refusal := s.findClaims(resource, slots)
	if refusal != nil {
		return Outcome{}, refusal
	}
	var outcome Outcome
	var refused *Refusal
	for _, ofPod := range groupByPod(claims) {
		if refusal := s.decidePod(ofPod, &outcome); refusal != nil && (refused == nil || refusal.IsTransient()) {
			refused = refusal
		}
	}
	if len(outcome.Write) == 0 {
		return Outcome{}, refused
	}
	outcome.Remove = append(outcome.Remove, s.outdatedRecords(outcome.Write)...)
	return outcome, nil
}

// decidePod adds to an outcome the changes for one pod's containers. The refusal is that of a container that may not start.
func (s *Situation) decidePod(claims []checkpoint.Claim, outcome *Outcome) *Refusal {
	pod, refusal := s.findPod(claims)
	if refusal != nil {
		return refusal
	}
	// What was just decided for another pod counts as held.
	now := *s
	now.Records = slices.Concat(s.Records, outcome.Write)
	d := decision{Situation: &now, uid: claims[0].Pod, pod: pod}
	var refused *Refusal
	for i := range claims {
		record, refusal := d.buildRecord(&claims[i], claims)
		if refusal == nil {
			outcome.Write = append(outcome.Write, record)
			continue
		}
		if refused == nil || refusal.IsTransient() {
			refused = refusal
		}
		if s.findRecord(&claims[i]) != nil {
			outcome.Remove = append(outcome.Remove, claims[i].Name)
		}
	}
	return refused
}

// outdatedRecords returns the records of ended pods with devices that others now get. A kubelet that has restarted, and has no plugin back yet, restarts
// containers without asking: the runtime must not know two devices that are one GPU.
func (s *Situation) outdatedRecords(written []Record) []string {
	var names []string
	for i := range s.Records {
		record := &s.Records[i]
		if _, live := s.Live[record.Pod]; live {
			continue
		}
		for j := range written {
			if written[j].Pod != record.Pod && hasOverlap(record.UUIDs(), written[j].UUIDs()) {
				names = append(names, record.Name)
				break
			}
		}
	}
	return names
}

func groupByPod(claims []checkpoint.Claim) [][]checkpoint.Claim {
	var pods [][]checkpoint.Claim
	for i := range claims {
		at := slices.IndexFunc(pods, func(p []checkpoint.Claim) bool { return p[0].Pod == claims[i].Pod })
		if at < 0 {
			pods, at = append(pods, nil), len(pods)
		}
		pods[at] = append(pods[at], claims[i])
	}
	return pods
}

// findClaims returns the containers with exactly these slots, one of which is about to start.
func (s *Situation) findClaims(resource string, slots []string) ([]checkpoint.Claim, *Refusal) {
	slots = slices.Sorted(slices.Values(slots))
	var claims []checkpoint.Claim
	for i := range s.Claims {
		if s.Claims[i].Resource == resource && slices.Equal(s.Claims[i].Slots, slots) {
			claims = append(claims, s.Claims[i])
		}
	}
	if len(claims) == 0 {
		return nil, newRefusal(UnknownSlots, "kubelet's checkpoint knows no container with the slots %v of %s", slots, resource)
	}
	if len(groupByPod(claims)) == 1 {
		return claims, nil
	}
	// kubelet gave the slots twice, or has not written down yet that one of the pods has ended. It makes a pod's sandbox before
	// it asks for a container, and asks for none that runs.
	starting := slices.DeleteFunc(slices.Clone(claims), func(c checkpoint.Claim) bool {
		containers, live := s.Live[c.Pod]
		return !live || containers[c.Container]
	})
	if len(starting) == 0 {
		return nil, newRefusal(SlotsTwice, "kubelet gave the slots %v of %s to %s and to others, and none of them has a container that is about to "+
			"start", slots, resource, s.describePod(claims[0].Pod))
	}
	return starting, nil
}

// findPod returns the pod of some claims. If the API server does not answer, a pod is known by its own records, if it has run on this node before.
func (s *Situation) findPod(claims []checkpoint.Claim) (Pod, *Refusal) {
	uid := claims[0].Pod
	if pod, ok := s.Pods[uid]; ok {
		if pod.Deleting {
			return Pod{}, newRefusal(DeletedPod, "pod %s/%s is being deleted", pod.Namespace, pod.Name)
		}
		if pod.Static {
			return Pod{}, newRefusal(Unassigned, "pod %s/%s is static: no scheduler places it, so no card is meant for it. Make it a pod of the API "+
				"server, with schedulerName %s and a nodeSelector for this node", pod.Namespace, pod.Name, names.SchedulerName)
		}
		return pod, nil
	}
	for i := range claims {
		if s.findRecord(&claims[i]) == nil {
			return Pod{}, newRefusal(UnknownPod, "the API server has not told of the pod %s that kubelet is starting", uid)
		}
	}
	record := s.findRecord(&claims[0])
	return Pod{Namespace: record.Namespace, Name: record.PodName}, nil
}

// findRecord returns what a container received when it was created before, nil for none.
func (s *Situation) findRecord(claim *checkpoint.Claim) *Record {
	i := slices.IndexFunc(s.Records, func(r Record) bool { return r.Name == claim.Name && r.Pod == claim.Pod })
	if i < 0 {
		return nil
	}
	return &s.Records[i]
}

func (s *Situation) describePod(uid types.UID) string {
	if pod, ok := s.Pods[uid]; ok {
		return "pod " + pod.Namespace + "/" + pod.Name
	}
	for i := range s.Records {
		if s.Records[i].Pod == uid {
			return "pod " + s.Records[i].Namespace + "/" + s.Records[i].PodName
		}
	}
	return "pod " + string(uid)
}

func hasOverlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(slot string) bool { return slices.Contains(b, slot) })
}

// decision is about one pod.
type decision struct {
	*Situation
	uid types.UID
	pod Pod
}

// buildRecord returns what a container gets. claims are all containers of the pod with its slots.
func (d *decision) buildRecord(claim *checkpoint.Claim, claims []checkpoint.Claim) (Record, *Refusal) {
	if refusal := d.checkForeign(claim); refusal != nil {
		return Record{}, refusal
	}
	devices, all, refusal := d.resolveDevices(claim)
	if refusal != nil {
		return Record{}, refusal
	}
	for i := range devices {
		if refusal := d.checkDevice(claim, &devices[i]); refusal != nil {
			return Record{}, refusal
		}
	}
	record := Record{
		Name: claim.Name, Pod: claim.Pod, Namespace: d.pod.Namespace, PodName: d.pod.Name, Container: claim.Container,
		Resource: claim.Resource, Devices: devices, All: all,
	}
	return record, d.findOwnPodHolder(&record, claims)
}

// checkForeign refuses where another device plugin allocated unknown GPUs: those of the container, or of one that runs.
func (d *decision) checkForeign(claim *checkpoint.Claim) *Refusal {
	if claim.Name == "" {
		return newRefusal(OtherPlugin, "another device plugin gave out %s of container %s of %s: delete the pod, so that it starts over with "+
			"cards of the scheduler", claim.Resource, claim.Container, d.describePod(claim.Pod))
	}
	for i := range d.Claims {
		if other := &d.Claims[i]; other.Name == "" && d.Live[other.Pod][other.Container] {
			return newRefusal(OtherPlugin, "container %s of %s runs with %s that another device plugin gave out, and nobody knows which: delete "+
				"the pod", other.Container, d.describePod(other.Pod), other.Resource)
		}
	}
	return nil
}

// resolveDevices returns the GPUs of a container: of the resource, and of all its resources.
func (d *decision) resolveDevices(claim *checkpoint.Claim) (devices []gpu.Device, all []string, refusal *Refusal) {
	if isMIG(claim.Resource) {
		return d.resolveSlices(claim)
	}
	_, known := d.Pods[d.uid]
	chosenHere := known && d.pod.Assignment == ""
	switch before := d.findRecord(claim); {
	case before != nil && !known, before != nil && chosenHere && !d.hasLostDevices(claim, before):
		return before.Devices, before.All, nil
	case d.pod.Assignment != "":
		return d.assignedDevices(claim)
	case d.Unassigned == GiveFree && claim.Resource == names.ResourceGPU:
		return d.chooseGPUs(claim)
	}
	return nil, nil, d.refuseUnassigned()
}

// refuseUnassigned refuses a pod without an assignment.
func (d *decision) refuseUnassigned() *Refusal {
	return newRefusal(Unassigned, "pod %s/%s has no annotation %s, so another scheduler than %s put it on this node, and no card "+
		"is meant for it: set its schedulerName to %[4]s", d.pod.Namespace, d.pod.Name, names.AnnotationGPUDevices, names.SchedulerName)
}

// assignedDevices returns the GPUs of the scheduler's choice.
func (d *decision) assignedDevices(claim *checkpoint.Claim) ([]gpu.Device, []string, *Refusal) {
	assignment, err := gpu.ParseAssignment(d.pod.Assignment)
	if err != nil {
		return nil, nil, newRefusal(BadAssignment, "pod %s/%s: annotation %s: %v", d.pod.Namespace, d.pod.Name, names.AnnotationGPUDevices, err)
	}
	shared := claim.Resource == names.ResourceSharedGPU
	var devices []gpu.Device
	for _, device := range assignment[claim.Container] {
		if (device.MemoryMiB > 0) == shared {
			devices = append(devices, device)
		}
	}
	if len(devices) != len(claim.Slots) {
		return nil, nil, newRefusal(BadAssignment, "pod %s/%s: container %s has %d %s of kubelet and %d cards of the scheduler", d.pod.Namespace,
			d.pod.Name, claim.Container, len(claim.Slots), claim.Resource, len(devices))
	}
	return devices, deviceUUIDs(assignment[claim.Container]), nil
}

// checkDevice explains why a container may not have a GPU.
func (d *decision) checkDevice(claim *checkpoint.Claim, device *gpu.Device) *Refusal {
	card, ok := d.GPUs[device.UUID]
	switch {
	case !ok:
		return newRefusal(UnknownGPU, "pod %s/%s is to have card %s, which this node does not have", d.pod.Namespace, d.pod.Name, device.UUID)
	case card.Resource != claim.Resource && card.Shared != claim.Resource:
		return newRefusal(BadAssignment, "pod %s/%s is to have card %s as %s, which this node gives out as %s", d.pod.Namespace, d.pod.Name,
			device.UUID, claim.Resource, card.Resource)
	case card.Health != gpu.Healthy:
		return newRefusal(SickGPU, "pod %s/%s is to have card %s (number %d), which must not be used: %s", d.pod.Namespace, d.pod.Name,
			device.UUID, card.Index, card.Health)
	}
	return d.findOtherPodHolder(device)
}

// findOtherPodHolder finds another pod that holds a GPU, or too much of it. All of the memory counts, including the driver's reservation: pods that an
// older scheduler placed hold some of that, and their containers may restart.
func (d *decision) findOtherPodHolder(device *gpu.Device) *Refusal {
	left := d.GPUs[device.UUID].MemoryMiB
	for i := range d.Records {
		record := &d.Records[i]
		if _, live := d.Live[record.Pod]; !live || record.Pod == d.uid {
			continue
		}
		for j := range record.Devices {
			held := &record.Devices[j]
			if !d.overlapsDevice(held, device) {
				continue
			}
			left -= held.MemoryMiB
			if held.MemoryMiB == 0 || device.MemoryMiB == 0 || left < device.MemoryMiB {
				return newRefusal(HeldGPU, "card %s of pod %s/%s is still with pod %s/%s, whose containers the runtime has not ended", device.UUID,
					d.pod.Namespace, d.pod.Name, record.Namespace, record.PodName)
			}
		}
	}
	return nil
}

// overlapsDevice reports whether two devices are the same, or parts of one GPU that cannot both exist: a GPU and a slice of it, or a slice that is gone and
// the one that replaced it. In these cases the GPU's mode or slices were changed, and the container that was given one could use the other.
func (d *decision) overlapsDevice(held, device *gpu.Device) bool {
	if held.UUID == device.UUID {
		return true
	}
	before, known := d.GPUs[held.UUID]
	card := d.GPUs[device.UUID]
	if !known && strings.HasPrefix(held.UUID, slicePrefix) {
		return held.Index == card.Index
	}
	return before.ParentUUID == device.UUID || card.ParentUUID == held.UUID
}

// slicePrefix begins the UUIDs of MIG slices, as the driver names them.
const slicePrefix = "MIG-"

// findOwnPodHolder finds another running container of the same pod that has a whole GPU of the record. Containers that may be about to start with the same
// slots do not count: only one of them exists at a time.
func (d *decision) findOwnPodHolder(record *Record, claims []checkpoint.Claim) *Refusal {
	for i := range d.Records {
		other := &d.Records[i]
		if other.Pod != d.uid || !d.Live[d.uid][other.Container] || other.Resource != record.Resource ||
			slices.ContainsFunc(claims, func(c checkpoint.Claim) bool { return c.Container == other.Container }) {
			continue
		}
		for j := range other.Devices {
			if other.Devices[j].MemoryMiB == 0 && slices.Contains(record.UUIDs(), other.Devices[j].UUID) {
				return newRefusal(HeldGPU, "card %s of container %s of pod %s/%s is with its container %s, which runs", other.Devices[j].UUID,
					record.Container, d.pod.Namespace, d.pod.Name, other.Container)
			}
		}
	}
	return nil
}

func isMIG(resource string) bool {
	return len(resource) > len(names.ResourceMIGPrefix) && strings.HasPrefix(resource, names.ResourceMIGPrefix)
}

package binding

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// choose takes the first healthy cards that nobody holds and that the scheduler has promised to nobody.
func (d *decision) choose(claim *checkpoint.Claim) ([]gpu.Device, []string, *Refusal) {
	taken := d.promised()
	for i := range d.Records {
		record := &d.Records[i]
		if _, live := d.Live[record.Pod]; live && !d.reusable(record, claim) {
			for _, uuid := range record.UUIDs() {
				taken[uuid] = true
			}
		}
	}
	uuids := slices.SortedFunc(maps.Keys(d.Cards), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.Cards[a].Index, d.Cards[b].Index), cmp.Compare(a, b))
	})
	var devices []gpu.Device
	for _, uuid := range uuids {
		card := d.Cards[uuid]
		if card.Resource == claim.Resource && card.Health == gpu.Healthy && !taken[uuid] && len(devices) < len(claim.Slots) {
			devices = append(devices, gpu.Device{UUID: uuid, Index: card.Index})
		}
	}
	if len(devices) < len(claim.Slots) {
		return nil, nil, refuse(NoFreeCard, "pod %s/%s: container %s asks for %d %s, and only %d are free and healthy", d.pod.Namespace,
			d.pod.Name, claim.Container, len(claim.Slots), claim.Resource, len(devices))
	}
	return devices, uuidsOf(devices), nil
}

// reusable reports whether the cards of a record can be given to another container of its pod: kubelet gave that one slots
// of the record's container, so the two never run at once.
func (d *decision) reusable(record *Record, claim *checkpoint.Claim) bool {
	if record.Pod != claim.Pod {
		return false
	}
	for i := range d.Claims {
		other := &d.Claims[i]
		if other.Name == record.Name && other.Pod == record.Pod {
			return other.Resource == claim.Resource && overlap(other.Slots, claim.Slots)
		}
	}
	return false
}

// promised are the cards that the scheduler chose for pods of the node, whether or not they have started.
func (d *decision) promised() map[string]bool {
	promised := map[string]bool{}
	for uid, pod := range d.Pods {
		if pod.Assignment == "" || uid == d.uid || !d.claims(uid) {
			continue
		}
		assignment, err := gpu.ParseAssignment(pod.Assignment)
		if err != nil {
			continue // it will get none
		}
		for _, devices := range assignment {
			for i := range devices {
				promised[devices[i].UUID] = true
			}
		}
	}
	return promised
}

// claims reports whether kubelet has slots for a pod. It frees those of pods that have ended, which the API server still
// has.
func (d *decision) claims(uid types.UID) bool {
	return slices.ContainsFunc(d.Claims, func(c checkpoint.Claim) bool { return c.Pod == uid })
}

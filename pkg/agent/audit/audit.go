// Package audit compares kubelet's view of its containers with the agent's records. It queries kubelet by the one interface that kubelet supports for
// this, PodResources, while starts use its checkpoint. If the two ever differ, or two containers hold one GPU, the audit detects it. It is pure.
package audit

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Kind is what differs, in one word. There are few, so that they can be counted.
type Kind string

// The kinds.
const (
	// Unclaimed: kubelet lists slots for a container that its checkpoint does not have.
	Unclaimed Kind = "unclaimed"
	// OtherSlots: its checkpoint has others.
	OtherSlots Kind = "other-slots"
	// Unrecorded: a container runs with slots, and the agent recorded no GPUs for it.
	Unrecorded Kind = "unrecorded"
	// Miscounted: its numbers of GPUs and of slots differ.
	Miscounted Kind = "miscounted"
	// Forgotten: a container runs for which the scheduler chose GPUs, and kubelet has no slots for it. A kubelet that has lost its checkpoint starts
	// containers without GPUs until a plugin is there.
	Forgotten Kind = "forgotten"
	// GPUTwice: two pods have containers that run and have the same GPU whole.
	GPUTwice Kind = "card-twice"
)

// Kinds are all of them, for metrics that begin at 0.
var Kinds = []Kind{Unclaimed, OtherSlots, Unrecorded, Miscounted, Forgotten, GPUTwice}

// Listed is the list of kubelet's PodResources for one resource of a container.
type Listed struct {
	Namespace, Pod, Container, Resource string
	// Slots are sorted.
	Slots []string
}

// Situation is the known state of a node: what kubelet lists, and the rest as starts see it.
type Situation struct {
	Listed  []Listed
	Claims  []checkpoint.Claim
	Records []binding.Record
	Pods    map[types.UID]binding.Pod
	Live    map[types.UID]map[string]bool
}

// Difference is one thing that does not agree.
type Difference struct {
	Kind            Kind
	Pod             types.UID
	Namespace, Name string
	// Text is for people.
	Text string
}

// FindDifferences returns all differences. The parts of a situation are of slightly different moments, so a single difference may be a pod that comes or
// goes; a repeated one is real.
func FindDifferences(s *Situation) []Difference {
	uids := map[types.NamespacedName]types.UID{}
	for uid, pod := range s.Pods {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = uid
	}
	var out []Difference
	for i := range s.Listed {
		listed := &s.Listed[i]
		uid, known := uids[types.NamespacedName{Namespace: listed.Namespace, Name: listed.Pod}]
		if !known {
			continue // the pod of that name is ambiguous
		}
		if kind, text := s.compareListed(listed, uid); kind != "" {
			out = append(out, Difference{Kind: kind, Pod: uid, Namespace: listed.Namespace, Name: listed.Pod, Text: text})
		}
	}
	return slices.Concat(out, s.findMisrecorded(), s.findForgotten(), s.heldTwice())
}

func (s *Situation) compareListed(listed *Listed, uid types.UID) (Kind, string) {
	at := slices.IndexFunc(s.Claims, func(c checkpoint.Claim) bool {
		return c.Pod == uid && c.Container == listed.Container && c.Resource == listed.Resource
	})
	if at < 0 {
		return Unclaimed, fmt.Sprintf("kubelet lists %s of container %s that its checkpoint does not have", listed.Resource, listed.Container)
	}
	claim := &s.Claims[at]
	if !slices.Equal(claim.Slots, listed.Slots) {
		return OtherSlots, fmt.Sprintf("kubelet lists the slots %v of container %s, and its checkpoint has %v", listed.Slots, listed.Container, claim.Slots)
	}
	return "", ""
}

// findMisrecorded finds containers that run with a number of GPUs other than that of their slots, or with unknown ones. It uses the checkpoint, as a
// kubelet before 1.34 lists nothing.
func (s *Situation) findMisrecorded() []Difference {
	var out []Difference
	for i := range s.Claims {
		claim := &s.Claims[i]
		pod, known := s.Pods[claim.Pod]
		if !known || !s.Live[claim.Pod][claim.Container] {
			continue
		}
		found := Difference{Pod: claim.Pod, Namespace: pod.Namespace, Name: pod.Name}
		held := slices.IndexFunc(s.Records, func(r binding.Record) bool { return r.Name == claim.Name && r.Pod == claim.Pod })
		switch {
		case held < 0:
			found.Kind = Unrecorded
			found.Text = fmt.Sprintf("container %s runs with %d %s, and no record says which", claim.Container, len(claim.Slots), claim.Resource)
		case len(s.Records[held].Devices) != len(claim.Slots):
			found.Kind = Miscounted
			found.Text = fmt.Sprintf("container %s has %d %s of kubelet, and %d by its record", claim.Container, len(claim.Slots), claim.Resource,
				len(s.Records[held].Devices))
		default:
			continue
		}
		out = append(out, found)
	}
	return out
}

// findForgotten finds containers that run with GPUs only by the scheduler's choice or by a record. It is unknown which of them have started since kubelet
// forgot; none of them starts again.
func (s *Situation) findForgotten() []Difference {
	var out []Difference
	for _, uid := range slices.Sorted(maps.Keys(s.Pods)) {
		pod := s.Pods[uid]
		for _, container := range s.assignedContainers(uid) {
			if !s.Live[uid][container] || s.isKnownToKubelet(uid, pod, container) {
				continue
			}
			out = append(out, Difference{Kind: Forgotten, Pod: uid, Namespace: pod.Namespace, Name: pod.Name,
				Text: fmt.Sprintf("kubelet has forgotten the slots of container %s: it runs without the cards that were chosen for it where it "+
					"has started since, and does not start again: delete the pod", container)})
		}
	}
	return out
}

// isKnownToKubelet reports whether kubelet knows that a container has slots, by its checkpoint or by what it lists.
func (s *Situation) isKnownToKubelet(uid types.UID, pod binding.Pod, container string) bool {
	return slices.ContainsFunc(s.Claims, func(c checkpoint.Claim) bool { return c.Pod == uid && c.Container == container }) ||
		slices.ContainsFunc(s.Listed, func(l Listed) bool {
			return l.Namespace == pod.Namespace && l.Pod == pod.Name && l.Container == container
		})
}

// assignedContainers returns the containers of a pod that are assigned GPUs.
func (s *Situation) assignedContainers(uid types.UID) []string {
	holders := map[string]bool{}
	if choice, err := gpu.ParseChoice(s.Pods[uid].Assignment); err == nil { // else it has none
		for container := range choice.GPUs {
			holders[container] = true
		}
		for container := range choice.Slices {
			holders[container] = true
		}
	}
	for i := range s.Records {
		if s.Records[i].Pod == uid {
			holders[s.Records[i].Container] = true
		}
	}
	return slices.Sorted(maps.Keys(holders))
}

// heldTwice finds whole GPUs that running containers of two pods have.
func (s *Situation) heldTwice() []Difference {
	holders := map[string]*binding.Record{}
	found := map[string]Difference{}
	for i := range s.Records {
		record := &s.Records[i]
		if !s.Live[record.Pod][record.Container] {
			continue
		}
		for j := range record.Devices {
			device := &record.Devices[j]
			other := holders[device.UUID]
			if device.MemoryMiB > 0 {
				continue
			}
			if other == nil {
				holders[device.UUID] = record
			} else if other.Pod != record.Pod {
				found[device.UUID] = Difference{Kind: GPUTwice, Pod: record.Pod, Namespace: record.Namespace, Name: record.PodName,
					Text: fmt.Sprintf("card %s is with container %s and with container %s of pod %s/%s, and both run", device.UUID, record.Container,
						other.Container, other.Namespace, other.PodName)}
			}
		}
	}
	var out []Difference
	for _, uuid := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[uuid])
	}
	return out
}

// RepeatedDifferences returns the differences in both lists, in the order of now. It ignores the text, of which only the details may differ.
func RepeatedDifferences(before, now []Difference) []Difference {
	var out []Difference
	for i := range now {
		same := func(d Difference) bool { return d.Kind == now[i].Kind && d.Pod == now[i].Pod }
		if slices.ContainsFunc(before, same) {
			out = append(out, now[i])
		}
	}
	return out
}

// Package audit compares what kubelet says of its containers with what the agent recorded. kubelet is asked by the one
// interface that it supports for this, PodResources, while starts go by its checkpoint: should the two ever differ, or two
// containers hold one card, it is seen here. It is pure.
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
	// Unclaimed: kubelet says that a container has slots, and its checkpoint knows of none.
	Unclaimed Kind = "unclaimed"
	// OtherSlots: its checkpoint has others.
	OtherSlots Kind = "other-slots"
	// Unrecorded: a container runs with slots, and the agent recorded no cards for it.
	Unrecorded Kind = "unrecorded"
	// Miscounted: it has more or fewer cards than slots.
	Miscounted Kind = "miscounted"
	// Forgotten: a container runs that the scheduler chose cards for, and kubelet has no slots for it. A kubelet that has lost its
	// checkpoint starts containers without cards until a plugin is there.
	Forgotten Kind = "forgotten"
	// CardTwice: two pods have containers that run and have the same card whole.
	CardTwice Kind = "card-twice"
)

// Kinds are all of them, for metrics that begin at 0.
var Kinds = []Kind{Unclaimed, OtherSlots, Unrecorded, Miscounted, Forgotten, CardTwice}

// Listed is what kubelet's PodResources say of one resource of a container.
type Listed struct {
	Namespace, Pod, Container, Resource string
	// Slots are sorted.
	Slots []string
}

// Situation is what is known of a node: what is listed, and the rest as starts see it.
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

// Differences returns what does not agree. The parts of a situation are of slightly different moments, so what is found
// once may be a pod that comes or goes; what is found again is not.
func Differences(s *Situation) []Difference {
	uids := map[types.NamespacedName]types.UID{}
	for uid, pod := range s.Pods {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = uid
	}
	var out []Difference
	for i := range s.Listed {
		listed := &s.Listed[i]
		uid, known := uids[types.NamespacedName{Namespace: listed.Namespace, Name: listed.Pod}]
		if !known {
			continue // nobody knows which pod of that name is meant
		}
		if kind, text := s.differs(listed, uid); kind != "" {
			out = append(out, Difference{Kind: kind, Pod: uid, Namespace: listed.Namespace, Name: listed.Pod, Text: text})
		}
	}
	return slices.Concat(out, s.misrecorded(), s.forgotten(), s.heldTwice())
}

func (s *Situation) differs(listed *Listed, uid types.UID) (Kind, string) {
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

// misrecorded finds containers that run with other cards than slots, or with nobody knows which. It goes by the checkpoint, as a
// kubelet before 1.34 lists nothing.
func (s *Situation) misrecorded() []Difference {
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

// forgotten finds containers that run with cards by the scheduler's choice or by a record alone. Which of them have started since
// kubelet forgot, nobody knows; none of them starts again.
func (s *Situation) forgotten() []Difference {
	var out []Difference
	for _, uid := range slices.Sorted(maps.Keys(s.Pods)) {
		pod := s.Pods[uid]
		for _, container := range s.holders(uid) {
			if !s.Live[uid][container] || s.knows(uid, pod, container) {
				continue
			}
			out = append(out, Difference{Kind: Forgotten, Pod: uid, Namespace: pod.Namespace, Name: pod.Name,
				Text: fmt.Sprintf("kubelet has forgotten the slots of container %s: it runs without the cards that were chosen for it where it "+
					"has started since, and does not start again: delete the pod", container)})
		}
	}
	return out
}

// knows reports whether kubelet knows that a container has slots, by its checkpoint or by what it lists.
func (s *Situation) knows(uid types.UID, pod binding.Pod, container string) bool {
	return slices.ContainsFunc(s.Claims, func(c checkpoint.Claim) bool { return c.Pod == uid && c.Container == container }) ||
		slices.ContainsFunc(s.Listed, func(l Listed) bool {
			return l.Namespace == pod.Namespace && l.Pod == pod.Name && l.Container == container
		})
}

// holders are the containers of a pod that are to have cards.
func (s *Situation) holders(uid types.UID) []string {
	holders := map[string]bool{}
	if choice, err := gpu.ParseChoice(s.Pods[uid].Assignment); err == nil { // else it has none
		for container := range choice.Cards {
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

// heldTwice finds whole cards that containers of two pods have which run.
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
				found[device.UUID] = Difference{Kind: CardTwice, Pod: record.Pod, Namespace: record.Namespace, Name: record.PodName,
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

// Again returns what is among both, in the order of now: by all but the text, in which only the details may differ.
func Again(before, now []Difference) []Difference {
	var out []Difference
	for i := range now {
		same := func(d Difference) bool { return d.Kind == now[i].Kind && d.Pod == now[i].Pod }
		if slices.ContainsFunc(before, same) {
			out = append(out, now[i])
		}
	}
	return out
}

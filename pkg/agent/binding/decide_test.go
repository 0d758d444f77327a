package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const mig = names.ResourceMIGPrefix + "1g.10gb"

// node has four cards, A to D, one of which is sick, and two slices. Pod one is bound with cards A and B for its container
// main, and kubelet has given it slots.
func node(changes ...func(*Situation)) *Situation {
	s := &Situation{
		Claims: []checkpoint.Claim{{Pod: "one", Container: "main", Resource: names.ResourceGPU, Slots: []string{"slot-0", "slot-1"}, Name: "N1"}},
		Pods:   map[types.UID]Pod{"one": {Namespace: "team", Name: "one", Assignment: assignment("main", "A", "B")}},
		Live:   map[types.UID]map[string]bool{"one": {}},
		Cards: map[string]Card{
			"A": {Resource: names.ResourceGPU, Index: 0, MemoryMiB: 1000, Health: gpu.Healthy},
			"B": {Resource: names.ResourceGPU, Index: 1, MemoryMiB: 1000, Health: gpu.Healthy},
			"C": {Resource: names.ResourceGPU, Index: 2, MemoryMiB: 1000, Health: gpu.Healthy},
			"D": {Resource: names.ResourceGPU, Index: 3, MemoryMiB: 1000, Health: "Xid79"},
			"S": {Resource: names.ResourceGPU, Shared: names.ResourceSharedGPU, Index: 4, MemoryMiB: 1000, Health: gpu.Healthy},
			"M": {Resource: mig, Index: 5, MemoryMiB: 100, Health: gpu.Healthy},
			"N": {Resource: mig, Index: 5, MemoryMiB: 100, Health: gpu.Healthy},
		},
		Unassigned: Refuse,
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// assignment writes the scheduler's annotation: a container, and its cards. "S:500" is 500 MiB of S.
func assignment(container string, cards ...string) string {
	devices := gpu.Assignment{container: {}}
	for _, card := range cards {
		uuid, share, _ := strings.Cut(card, ":")
		device := gpu.Device{UUID: uuid}
		if share != "" {
			_, _ = fmt.Sscan(share, &device.MemoryMiB)
		}
		devices[container] = append(devices[container], device)
	}
	text, err := devices.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func pod(uid types.UID, text string) func(*Situation) {
	return func(s *Situation) { s.Pods[uid] = Pod{Namespace: "team", Name: string(uid), Assignment: text} }
}

// decided says that our scheduler put a pod on the node.
func decided(uid types.UID) func(*Situation) {
	return func(s *Situation) {
		pod := s.Pods[uid]
		pod.Decided = true
		s.Pods[uid] = pod
	}
}

// sliceChoice writes the scheduler's annotation of a pod that has slices alone.
func sliceChoice(container string, uuids ...string) string {
	choice := gpu.Choice{Slices: gpu.SliceAssignment{}}
	for _, uuid := range uuids {
		choice.Slices[container] = append(choice.Slices[container], gpu.HeldSlice{UUID: uuid, Profile: "1g.10gb", Card: "Y", GPU: 5})
	}
	text, err := choice.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func claim(uid types.UID, container, resource, name string, slots ...string) func(*Situation) {
	return func(s *Situation) {
		s.Claims = append(s.Claims, checkpoint.Claim{Pod: uid, Container: container, Resource: resource, Slots: slots, Name: name})
	}
}

func record(uid types.UID, container, resource, name string, cards ...string) func(*Situation) {
	return func(s *Situation) {
		r := Record{Name: name, Pod: uid, Namespace: "team", PodName: string(uid), Container: container, Resource: resource}
		for _, card := range cards {
			uuid, share, _ := strings.Cut(card, ":")
			device := gpu.Device{UUID: uuid}
			if share != "" {
				_, _ = fmt.Sscan(share, &device.MemoryMiB)
			}
			r.Devices, r.All = append(r.Devices, device), append(r.All, uuid)
		}
		s.Records = append(s.Records, r)
	}
}

// live says that the runtime has not ended a pod, and which of its containers run.
func live(uid types.UID, running ...string) func(*Situation) {
	return func(s *Situation) {
		s.Live[uid] = map[string]bool{}
		for _, container := range running {
			s.Live[uid][container] = true
		}
	}
}

func ended(uid types.UID) func(*Situation)  { return func(s *Situation) { delete(s.Live, uid) } }
func silent(uid types.UID) func(*Situation) { return func(s *Situation) { delete(s.Pods, uid) } }
func policy(p Policy) func(*Situation)      { return func(s *Situation) { s.Unassigned = p } }

// sliceOf makes a device a slice of a card.
func sliceOf(uuid, card string) func(*Situation) {
	return func(s *Situation) {
		slice := s.Cards[uuid]
		slice.Card, slice.Resource = card, mig
		s.Cards[uuid] = slice
	}
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		node *Situation
		// resource and slots of the call; those of pod one when they are not given.
		resource string
		slots    []string
		// want are "container: cards" of the records, wantRemoved names of records to remove, and wantReason why there are none.
		want, wantRemoved []string
		wantReason        Reason
		wantText          string
	}{
		"the scheduler's choice": {node: node(), want: []string{"main N1: A B"}},
		"slots in another order": {node: node(), slots: []string{"slot-1", "slot-0"}, want: []string{"main N1: A B"}},
		"an init container and a main one have the same slots, and not the same cards": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}],`+
				`"setup":[{"uuid":"B","index":1},{"uuid":"C","index":2}]}}`),
				claim("one", "setup", names.ResourceGPU, "N2", "slot-0", "slot-1")),
			want: []string{"main N1: A B", "setup N2: B C"},
		},
		"an init container that has ended had a card that has become sick": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}],`+
				`"setup":[{"uuid":"B","index":1},{"uuid":"D","index":3}]}}`),
				claim("one", "setup", names.ResourceGPU, "N2", "slot-0", "slot-1"), record("one", "setup", names.ResourceGPU, "N2", "B", "D")),
			want: []string{"main N1: A B"}, wantRemoved: []string{"N2"},
		},
		"of an init container and a main one, each has a card that passes or does not": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}],`+
				`"setup":[{"uuid":"B","index":1},{"uuid":"D","index":3}]}}`),
				claim("one", "setup", names.ResourceGPU, "N2", "slot-0", "slot-1"), live("two"), record("two", "main", names.ResourceGPU, "N3", "A")),
			wantReason: HeldCard,
		},
		"a container starts again": {
			node: node(record("one", "main", names.ResourceGPU, "N1", "A", "B"), live("one", "main")), want: []string{"main N1: A B"},
		},
		"the other container of the pod has cards of its own": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}],"side":[{"uuid":"C","index":2}]}}`),
				claim("one", "side", names.ResourceGPU, "N2", "slot-2"), record("one", "side", names.ResourceGPU, "N2", "C"), live("one", "side")),
			want: []string{"main N1: A B"},
		},
		"a card is with a container of the same pod that runs": {
			node:       node(record("one", "side", names.ResourceGPU, "N2", "A"), live("one", "side")),
			wantReason: HeldCard, wantText: "its container side, which runs",
		},
		"a card was with an init container of the same pod that has ended": {
			node: node(record("one", "setup", names.ResourceGPU, "N2", "A"), live("one")), want: []string{"main N1: A B"},
		},
		"an init container that has ended had the card that a sidecar of the pod has now": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}],`+
				`"setup":[{"uuid":"C","index":2},{"uuid":"B","index":1}],"side":[{"uuid":"C","index":2}]}}`),
				claim("one", "setup", names.ResourceGPU, "N2", "slot-0", "slot-1"),
				record("one", "side", names.ResourceGPU, "N3", "C"), live("one", "side")),
			want: []string{"main N1: A B"},
		},
		"kubelet's checkpoint does not know the slots": {
			node: node(), slots: []string{"slot-0"}, wantReason: UnknownSlots, wantText: "[slot-0] of nvidia.com/gpu",
		},
		"the slots are of another resource": {node: node(), resource: mig, wantReason: UnknownSlots},
		"kubelet gave one slot of two to another pod as well": {
			node: node(pod("two", assignment("main", "C")), claim("two", "main", names.ResourceGPU, "N2", "slot-1"), live("two")),
			want: []string{"main N1: A B"},
		},
		"kubelet gave both slots to two pods, and either may be about to start": {
			node: node(pod("two", assignment("main", "C", "S")), claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1"), live("two")),
			want: []string{"main N1: A B", "main N2: C S"},
		},
		"kubelet gave both slots to two pods, and one of them runs": {
			node: node(pod("two", assignment("main", "C", "D")), claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1"),
				record("two", "main", names.ResourceGPU, "N2", "C", "D"), live("two", "main")),
			want: []string{"main N1: A B"},
		},
		"kubelet gave both slots to two pods, and one of them waits for a card": {
			node: node(pod("two", assignment("main", "C", "S")), claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1"), live("two"),
				live("three"), record("three", "main", names.ResourceGPU, "N3", "C")),
			want: []string{"main N1: A B"},
		},
		"kubelet gave both slots to two pods that are to have one card": {
			node: node(pod("two", assignment("main", "C", "A")), claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1"), live("two")),
			want: []string{"main N1: A B"},
		},
		"kubelet has given the slots of a pod that has ended, and has not written that down yet": {
			node: node(claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1")), want: []string{"main N1: A B"},
		},
		"kubelet gave both slots to two pods, and both run": {
			node:       node(claim("two", "main", names.ResourceGPU, "N2", "slot-0", "slot-1"), live("one", "main"), live("two", "main")),
			wantReason: SlotsTwice, wantText: "team/one",
		},
		"the same slot of another resource": {
			node: node(pod("two", ""), claim("two", "main", mig, "N2", "slot-1")), want: []string{"main N1: A B"},
		},
		"NVIDIA's plugin gave the devices out": {
			node:       node(func(s *Situation) { s.Claims[0].Name = "" }),
			wantReason: OtherPlugin, wantText: "delete the pod",
		},
		"a container runs with cards that NVIDIA's plugin gave out": {
			node:       node(pod("two", ""), claim("two", "main", names.ResourceGPU, "", "slot-2"), live("two", "main")),
			wantReason: OtherPlugin, wantText: "team/two",
		},
		"a container that NVIDIA's plugin gave cards has ended": {
			node: node(pod("two", ""), claim("two", "main", names.ResourceGPU, "", "slot-2"), live("two")), want: []string{"main N1: A B"},
		},
		"the API server has not told of the pod": {node: node(silent("one")), wantReason: UnknownPod},
		"the pod is being deleted": {
			node: node(func(s *Situation) {
				s.Pods["one"] = Pod{Namespace: "team", Name: "one", Assignment: assignment("main", "A", "B"), Deleting: true}
			}),
			wantReason: DeletedPod,
		},
		"the API server is gone, and the container has run before": {
			node: node(silent("one"), record("one", "main", names.ResourceGPU, "N1", "A", "B")), want: []string{"main N1: A B"},
		},
		"the API server is gone, and another pod ran under that name": {
			node: node(silent("one"), record("two", "main", names.ResourceGPU, "N1", "A", "B")), wantReason: UnknownPod,
		},
		"another scheduler bound the pod": {
			node: node(pod("one", "")), wantReason: Unassigned, wantText: "set its schedulerName to gpu-scheduler",
		},
		"another scheduler bound the pod, and free cards are given": {
			node: node(pod("one", ""), policy(GiveFree)), want: []string{"main N1: A B"},
		},
		"free cards are none that others hold": {
			node: node(pod("one", ""), policy(GiveFree), live("two"), record("two", "main", names.ResourceGPU, "N2", "A")),
			want: []string{"main N1: B C"},
		},
		"free cards are none that the scheduler has promised": {
			node: node(pod("one", ""), policy(GiveFree), pod("two", assignment("main", "B")), claim("two", "main", names.ResourceGPU, "N2", "slot-2")),
			want: []string{"main N1: A C"},
		},
		"free cards include those of pods that have ended": {
			node: node(pod("one", ""), policy(GiveFree), pod("two", assignment("main", "A")), record("two", "main", names.ResourceGPU, "N2", "A"),
				func(s *Situation) { delete(s.Cards, "S") }),
			want: []string{"main N1: B C"},
		},
		"free cards are those of pods that have ended, where there are no others": {
			node: node(pod("one", ""), policy(GiveFree), pod("two", assignment("main", "A")), record("two", "main", names.ResourceGPU, "N2", "A"),
				func(s *Situation) { delete(s.Cards, "S"); delete(s.Cards, "C") }),
			want: []string{"main N1: B A"}, wantRemoved: []string{"N2"},
		},
		"free cards are none of a pod that kubelet has not taken in yet": {
			node: node(pod("one", ""), policy(GiveFree), pod("two", assignment("main", "A"))), want: []string{"main N1: B C"},
		},
		"free cards are not known where a container runs without a record": {
			node:       node(pod("one", ""), policy(GiveFree), pod("two", ""), claim("two", "main", names.ResourceGPU, "N2", "slot-2"), live("two", "main")),
			wantReason: Unreadable, wantText: "team/two",
		},
		"free cards stay the same when the container starts again": {
			node: node(pod("one", ""), policy(GiveFree), record("one", "main", names.ResourceGPU, "N1", "B", "C")), want: []string{"main N1: B C"},
		},
		"too few free cards": {
			node:       node(pod("one", ""), policy(GiveFree), live("two"), record("two", "main", names.ResourceGPU, "N2", "A", "B", "C")),
			wantReason: NoFreeCard, wantText: "only 1 are free",
		},
		"an annotation that is no assignment": {
			node: node(pod("one", "{")), wantReason: BadAssignment, wantText: names.AnnotationGPUDevices,
		},
		"the assignment has fewer cards than kubelet gave slots": {
			node: node(pod("one", assignment("main", "A"))), wantReason: BadAssignment, wantText: "2 nvidia.com/gpu of kubelet and 1 cards",
		},
		"the assignment is for another container": {
			node: node(pod("one", assignment("other", "A", "B"))), wantReason: BadAssignment, wantText: "0 cards",
		},
		"a card of another node":     {node: node(pod("one", assignment("main", "A", "Z"))), wantReason: UnknownCard, wantText: "card Z"},
		"a card that is in MIG mode": {node: node(pod("one", assignment("main", "A", "M"))), wantReason: BadAssignment, wantText: mig},
		"a sick card":                {node: node(pod("one", assignment("main", "A", "D"))), wantReason: SickCard, wantText: "Xid79"},
		"a container starts again on a card that has become sick": {
			node: node(pod("one", assignment("main", "A", "D")), record("one", "main", names.ResourceGPU, "N1", "A", "D")), wantReason: SickCard,
		},
		"another pod holds a card": {
			node:       node(live("two", "main"), record("two", "main", names.ResourceGPU, "N2", "B")),
			wantReason: HeldCard, wantText: "still with pod team/two",
		},
		"another pod holds a card whose containers have not started yet": {
			node: node(live("two"), record("two", "main", names.ResourceGPU, "N2", "B")), wantReason: HeldCard,
		},
		"a pod deleted by force still runs, and only the runtime knows it": {
			node: node(live("gone", "main"), record("gone", "main", names.ResourceGPU, "N2", "A")), wantReason: HeldCard, wantText: "team/gone",
		},
		"another pod held a card and has ended": {
			node: node(record("two", "main", names.ResourceGPU, "N2", "B"), ended("two")), want: []string{"main N1: A B"}, wantRemoved: []string{"N2"},
		},
		"a pod of the same name, deleted and made again": {
			node: node(func(s *Situation) {
				record("old", "main", names.ResourceGPU, "N0", "A")(s)
				s.Records[0].PodName = "one"
				live("old", "main")(s)
			}),
			wantReason: HeldCard,
		},
		"a share": {
			node:     node(pod("one", assignment("main", "S:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, want: []string{"main N2: S:400"},
		},
		"shares of others leave room": {
			node: node(pod("one", assignment("main", "S:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7"),
				live("two"), record("two", "main", names.ResourceSharedGPU, "N3", "S:600")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, want: []string{"main N2: S:400"},
		},
		"shares of others leave too little": {
			node: node(pod("one", assignment("main", "S:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7"),
				live("two"), live("three"), record("two", "main", names.ResourceSharedGPU, "N3", "S:300"), record("three", "main", names.ResourceSharedGPU, "N4", "S:301")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: HeldCard,
		},
		"a share of a card that another pod has whole": {
			node: node(pod("one", assignment("main", "S:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7"),
				live("two"), record("two", "main", names.ResourceGPU, "N3", "S")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: HeldCard,
		},
		"a whole card that others share": {
			node:       node(pod("one", assignment("main", "S", "A")), live("two"), record("two", "main", names.ResourceSharedGPU, "N3", "S:1")),
			wantReason: HeldCard,
		},
		"a share of a card that this node does not share": {
			node:     node(pod("one", assignment("main", "A:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: BadAssignment,
		},
		"whole cards and shares of one container are told apart": {
			node: node(pod("one", assignment("main", "A", "S:400", "B")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7")),
			want: []string{"main N1: A B"},
		},
		"a slice, of a scheduler that chooses none": {
			node: node(claim("one", "main", mig, "N2", "slot-0")), resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: M"},
		},
		"the slice that the scheduler chose": {
			node: node(pod("one", sliceChoice("main", "N")), claim("one", "main", mig, "N2", "slot-0")), resource: mig, slots: []string{"slot-0"},
			want: []string{"main N2: N"},
		},
		"the same beside cards": {
			node: node(pod("one", `{"version":1,"containers":{"main":[{"uuid":"A","index":0},{"uuid":"B","index":1}]},`+
				`"slices":{"main":[{"uuid":"N","profile":"1g.10gb","card":"Y","gpu":5}]}}`), claim("one", "main", mig, "N2", "slot-0")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"the slice that the scheduler chose is with another pod": {
			node:     node(pod("one", sliceChoice("main", "N")), claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", mig, "N3", "N")),
			resource: mig, slots: []string{"slot-0"}, wantReason: HeldCard, wantText: "team/two",
		},
		"the slice that the scheduler chose is on a card that is ill": {
			node: node(pod("one", sliceChoice("main", "N")), claim("one", "main", mig, "N2", "slot-0"), func(s *Situation) {
				s.Cards["N"] = Card{Resource: mig, Index: 5, MemoryMiB: 100, Health: "Xid79"}
			}),
			resource: mig, slots: []string{"slot-0"}, wantReason: SickCard,
		},
		"more slices than slots": {
			node: node(pod("one", sliceChoice("main", "M", "N")), claim("one", "main", mig, "N2", "slot-0")), resource: mig, slots: []string{"slot-0"},
			wantReason: BadAssignment, wantText: "1 nvidia.com/mig-1g.10gb of kubelet and 2 of the scheduler",
		},
		"slices for another container": {
			node: node(pod("one", sliceChoice("other", "M")), claim("one", "main", mig, "N2", "slot-0")), resource: mig, slots: []string{"slot-0"},
			wantReason: BadAssignment,
		},
		"the slice that the scheduler chose is no more": {
			node: node(pod("one", sliceChoice("main", "Z")), claim("one", "main", mig, "N2", "slot-0")), resource: mig, slots: []string{"slot-0"},
			want: []string{"main N2: M"},
		},
		"it is no more, and the container starts again with what it got in its place": {
			node:     node(pod("one", sliceChoice("main", "Z")), claim("one", "main", mig, "N2", "slot-0"), record("one", "main", mig, "N2", "N")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"it is no more, and a slice is that of another container of the pod": {
			node: node(pod("one", `{"version":1,"slices":{"main":[{"uuid":"Z","profile":"1g.10gb","card":"Y","gpu":5}],`+
				`"other":[{"uuid":"M","profile":"1g.10gb","card":"Y","gpu":5}]}}`), claim("one", "main", mig, "N2", "slot-0"), claim("one", "other", mig, "N3", "slot-1")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"it is no more, and a slice is meant for another pod": {
			node: node(pod("one", sliceChoice("main", "Z")), claim("one", "main", mig, "N2", "slot-0"),
				pod("two", sliceChoice("main", "M")), claim("two", "main", mig, "N3", "slot-1")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"one of two is no more": {
			node: node(pod("one", sliceChoice("main", "N", "Z")), claim("one", "main", mig, "N2", "slot-0", "slot-1"),
				func(s *Situation) { s.Cards["L"] = s.Cards["M"] }),
			resource: mig, want: []string{"main N2: N L"},
		},
		"a slice of a pod that another scheduler put here": {
			node: node(pod("two", ""), claim("two", "main", mig, "N2", "slot-7"), live("two")), resource: mig, slots: []string{"slot-7"},
			wantReason: Unassigned, wantText: "another scheduler",
		},
		"a slice of such a pod, where the node gives what is free": {
			node: node(pod("two", ""), claim("two", "main", mig, "N2", "slot-7"), live("two"), policy(GiveFree)), resource: mig,
			slots: []string{"slot-7"}, want: []string{"main N2: M"},
		},
		"a slice of a pod of ours without a choice": {
			node: node(pod("two", ""), decided("two"), claim("two", "main", mig, "N2", "slot-7"), live("two")), resource: mig,
			slots: []string{"slot-7"}, want: []string{"main N2: M"},
		},
		"a card of a pod of ours without a choice": {
			node: node(pod("one", ""), decided("one")), wantReason: Unassigned,
		},
		"a slice that nobody holds": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", mig, "N3", "M")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"two slices for an init container, of which a main one uses one again": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), claim("one", "setup", mig, "N3", "slot-0", "slot-1"), record("one", "setup", mig, "N3", "M", "N")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: M"},
		},
		"two slices for an init container, and since then a lower one is free": {
			node: node(claim("one", "main", mig, "N2", "slot-0"), claim("one", "setup", mig, "N3", "slot-0", "slot-1"), record("one", "setup", mig, "N3", "N", "O"),
				func(s *Situation) { s.Cards["O"] = s.Cards["N"] }),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"a slice that a pod got while the runtime had ended the one before": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), record("one", "main", mig, "N2", "M"), live("two"), record("two", "main", mig, "N3", "M")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: N"},
		},
		"a slice that is no more": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), record("one", "main", mig, "N2", "Z")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: M"},
		},
		"a slice that is ill": {
			node: node(claim("one", "main", mig, "N2", "slot-0"), record("one", "main", mig, "N2", "M"), func(s *Situation) {
				s.Cards["M"] = Card{Resource: mig, Index: 5, MemoryMiB: 100, Health: "Xid79"}
			}),
			resource: mig, slots: []string{"slot-0"}, wantReason: SickCard,
		},
		"a slice for each of two pods that kubelet gave one slot": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), pod("two", ""), decided("two"), claim("two", "main", mig, "N3", "slot-0"), live("two")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: M", "main N3: N"},
		},
		"a slice of a card that a pod has whole": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", names.ResourceGPU, "N3", "Y"), sliceOf("M", "Y"), sliceOf("N", "Y")),
			resource: mig, slots: []string{"slot-0"}, wantReason: NoFreeCard,
		},
		"a card of which a pod has a slice": {
			node:       node(live("two"), record("two", "main", mig, "N3", "M"), sliceOf("M", "B")),
			wantReason: HeldCard, wantText: "team/two",
		},
		"a card of which a pod had a slice, when it was in MIG mode": {
			node: node(live("two"), record("two", "main", mig, "N3", "MIG-before"), func(s *Situation) {
				s.Records[0].Devices[0].Index = s.Cards["B"].Index
			}),
			wantReason: HeldCard, wantText: "team/two",
		},
		"no slice is free": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", mig, "N3", "M", "N")),
			resource: mig, slots: []string{"slot-0"}, wantReason: NoFreeCard,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resource, slots := tc.resource, tc.slots
			if resource == "" {
				resource = names.ResourceGPU
			}
			if slots == nil {
				slots = []string{"slot-0", "slot-1"}
			}
			outcome, refusal := tc.node.Decide(resource, slots)
			if diff := cmp.Diff(tc.want, spell(outcome.Write)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRemoved, outcome.Remove); diff != "" {
				t.Errorf("removed records (-want +got):\n%s", diff)
			}
			switch {
			case (refusal == nil) != (tc.wantReason == ""):
				t.Errorf("refusal is %v, want reason %q", refusal, tc.wantReason)
			case refusal != nil && (refusal.Reason != tc.wantReason || !strings.Contains(refusal.Text, tc.wantText)):
				t.Errorf("refused with %s, %q; want %s, …%s…", refusal.Reason, refusal.Text, tc.wantReason, tc.wantText)
			case refusal != nil && !slices.Contains(Reasons, refusal.Reason):
				t.Errorf("reason %s is not listed", refusal.Reason)
			}
		})
	}
}

func spell(records []Record) []string {
	var lines []string
	for i := range records {
		line := records[i].Container + " " + records[i].Name + ":"
		for _, device := range records[i].Devices {
			line += " " + device.UUID
			if device.MemoryMiB > 0 {
				line += fmt.Sprintf(":%d", device.MemoryMiB)
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func TestRecordsOfEndedPods(t *testing.T) {
	s := node(record("two", "main", names.ResourceGPU, "N2", "B"), record("one", "main", names.ResourceGPU, "N1", "A"), live("one"))
	if diff := cmp.Diff([]string{"main N2: B"}, spell(s.Ended())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package binding

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestDecide(t *testing.T) {
	decisions{
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
			wantReason: HeldGPU,
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
			wantReason: HeldGPU, wantText: "its container side, which runs",
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
		"kubelet runs the pod from a file": {
			node: node(static("one")), wantReason: Unassigned, wantText: "pod team/one is static",
		},
		"kubelet runs the pod from a file, and free cards are given": {
			node: node(static("one"), policy(GiveFree)), wantReason: Unassigned, wantText: "is static",
		},
		"an administrator's copy of a pod, with its card and its node": {
			node:       node(live("two", "main"), pod("two", assignment("main", "A", "B")), record("two", "main", names.ResourceGPU, "N2", "A", "B")),
			wantReason: HeldGPU, wantText: "still with pod team/two",
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
				func(s *Situation) { delete(s.GPUs, "S") }),
			want: []string{"main N1: B C"},
		},
		"free cards are those of pods that have ended, where there are no others": {
			node: node(pod("one", ""), policy(GiveFree), pod("two", assignment("main", "A")), record("two", "main", names.ResourceGPU, "N2", "A"),
				func(s *Situation) { delete(s.GPUs, "S"); delete(s.GPUs, "C") }),
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
			wantReason: NoFreeGPU, wantText: "only 1 are free",
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
		"a card of another node":     {node: node(pod("one", assignment("main", "A", "Z"))), wantReason: UnknownGPU, wantText: "card Z"},
		"a card that is in MIG mode": {node: node(pod("one", assignment("main", "A", "M"))), wantReason: BadAssignment, wantText: mig},
		"a sick card":                {node: node(pod("one", assignment("main", "A", "D"))), wantReason: SickGPU, wantText: "Xid79"},
		"a container starts again on a card that has become sick": {
			node: node(pod("one", assignment("main", "A", "D")), record("one", "main", names.ResourceGPU, "N1", "A", "D")), wantReason: SickGPU,
		},
		"another pod holds a card": {
			node:       node(live("two", "main"), record("two", "main", names.ResourceGPU, "N2", "B")),
			wantReason: HeldGPU, wantText: "still with pod team/two",
		},
		"another pod holds a card whose containers have not started yet": {
			node: node(live("two"), record("two", "main", names.ResourceGPU, "N2", "B")), wantReason: HeldGPU,
		},
		"a pod deleted by force still runs, and only the runtime knows it": {
			node: node(live("gone", "main"), record("gone", "main", names.ResourceGPU, "N2", "A")), wantReason: HeldGPU, wantText: "team/gone",
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
			wantReason: HeldGPU,
		},
		"a card of a pod of ours without a choice": {
			node: node(pod("one", ""), decided("one")), wantReason: Unassigned,
		},
	}.check(t)
}

func TestRecordsOfEndedPods(t *testing.T) {
	s := node(record("two", "main", names.ResourceGPU, "N2", "B"), record("one", "main", names.ResourceGPU, "N1", "A"), live("one"))
	if diff := cmp.Diff([]string{"main N2: B"}, spell(s.EndedRecords())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package binding

import (
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestDecideSlices is about MIG slices.
func TestDecideSlices(t *testing.T) {
	decisions{
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
			resource: mig, slots: []string{"slot-0"}, wantReason: HeldGPU, wantText: "team/two",
		},
		"the slice that the scheduler chose is on a card that is ill": {
			node: node(pod("one", sliceChoice("main", "N")), claim("one", "main", mig, "N2", "slot-0"), func(s *Situation) {
				s.GPUs["N"] = GPU{Resource: mig, Index: 5, MemoryMiB: 100, Health: "Xid79"}
			}),
			resource: mig, slots: []string{"slot-0"}, wantReason: SickGPU,
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
				func(s *Situation) { s.GPUs["L"] = s.GPUs["M"] }),
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
				func(s *Situation) { s.GPUs["O"] = s.GPUs["N"] }),
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
				s.GPUs["M"] = GPU{Resource: mig, Index: 5, MemoryMiB: 100, Health: "Xid79"}
			}),
			resource: mig, slots: []string{"slot-0"}, wantReason: SickGPU,
		},
		"a slice for each of two pods that kubelet gave one slot": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), pod("two", ""), decided("two"), claim("two", "main", mig, "N3", "slot-0"), live("two")),
			resource: mig, slots: []string{"slot-0"}, want: []string{"main N2: M", "main N3: N"},
		},
		"a slice of a card that a pod has whole": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", names.ResourceGPU, "N3", "Y"), sliceOf("M", "Y"), sliceOf("N", "Y")),
			resource: mig, slots: []string{"slot-0"}, wantReason: NoFreeGPU,
		},
		"a card of which a pod has a slice": {
			node:       node(live("two"), record("two", "main", mig, "N3", "M"), sliceOf("M", "B")),
			wantReason: HeldGPU, wantText: "team/two",
		},
		"a card of which a pod had a slice, when it was in MIG mode": {
			node: node(live("two"), record("two", "main", mig, "N3", "MIG-before"), func(s *Situation) {
				s.Records[0].Devices[0].Index = s.GPUs["B"].Index
			}),
			wantReason: HeldGPU, wantText: "team/two",
		},
		"no slice is free": {
			node:     node(claim("one", "main", mig, "N2", "slot-0"), live("two"), record("two", "main", mig, "N3", "M", "N")),
			resource: mig, slots: []string{"slot-0"}, wantReason: NoFreeGPU,
		},
	}.check(t)
}

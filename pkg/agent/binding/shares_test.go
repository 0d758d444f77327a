package binding

import (
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestDecideShares is about parts of a card's memory.
func TestDecideShares(t *testing.T) {
	decisions{
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
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: HeldGPU,
		},
		"a share of a card that another pod has whole": {
			node: node(pod("one", assignment("main", "S:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7"),
				live("two"), record("two", "main", names.ResourceGPU, "N3", "S")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: HeldGPU,
		},
		"a whole card that others share": {
			node:       node(pod("one", assignment("main", "S", "A")), live("two"), record("two", "main", names.ResourceSharedGPU, "N3", "S:1")),
			wantReason: HeldGPU,
		},
		"a share of a card that this node does not share": {
			node:     node(pod("one", assignment("main", "A:400")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7")),
			resource: names.ResourceSharedGPU, slots: []string{"slot-7"}, wantReason: BadAssignment,
		},
		"whole cards and shares of one container are told apart": {
			node: node(pod("one", assignment("main", "A", "S:400", "B")), claim("one", "main", names.ResourceSharedGPU, "N2", "slot-7")),
			want: []string{"main N1: A B"},
		},
	}.check(t)
}

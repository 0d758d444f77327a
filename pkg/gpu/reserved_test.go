package gpu

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// minimum has a demand insist on cards of some memory.
func minimum(d *Demand, memoryMiB int64) *Demand {
	d.MemoryMinMiB = memoryMiB
	return d
}

// reporting returns a node of one shared card, as its agent reports it.
func reporting(card string) *corev1.Node {
	node := offering("1", "8", map[string]string{names.LabelNVIDIAMemory: "46068"})
	node.Annotations = map[string]string{names.AnnotationInventory: `{"version":1,"gpus":[` + card + `]}`}
	return node
}

// TestSharesLeaveTheDriverItsPart: on a card of 46068 MiB no two pods get 23034 MiB each, which the second could not use.
func TestSharesLeaveTheDriverItsPart(t *testing.T) {
	const card = `{"uuid":"GPU-a","index":0,"health":"Healthy","memoryMiB":46068`
	slots := map[string]string{names.LabelNVIDIAMemory: "46068", names.LabelNVIDIAReplicas: "4", names.LabelNVIDIASharing: "time-slicing"}
	cases := map[string]struct {
		node      *corev1.Node
		shareable int64
	}{
		"labels alone":                      {offering("1", "8", map[string]string{names.LabelNVIDIAMemory: "46068"}), 45146},
		"a small card":                      {offering("1", "8", map[string]string{names.LabelNVIDIAMemory: "15360"}), 14848},
		"less than the least that is kept":  {offering("1", "8", map[string]string{names.LabelNVIDIAMemory: "500"}), 0},
		"memory not known":                  {offering("1", "8", nil), 0},
		"a slot keeps its part of it":       {offering("4", "", slots), 11517 - 231},
		"an agent that tells":               {reporting(card + `,"reservedMiB":640}`), 45428},
		"an agent of before":                {reporting(card + `}`), 45146},
		"a driver that keeps nothing":       {reporting(card + `,"reservedMiB":0}`), 46068},
		"a driver that keeps more than all": {reporting(card + `,"reservedMiB":16777216}`), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, err := AllocatorOf(tc.node, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Inventory().GPUs[0].ShareableMiB(); got != tc.shareable {
				t.Fatalf("shares can hold %d MiB, want %d", got, tc.shareable)
			}
			all := minimum(share(1, tc.shareable), a.Inventory().GPUs[0].MemoryMiB)
			if _, reason := a.Allocate(&Used{}, all); reason.IsZero() != (tc.shareable > 0) {
				t.Errorf("a share of all that there is: %v", reason.Detail())
			}
			if _, reason := a.Allocate(&Used{}, share(1, tc.shareable+1)); reason.Code == Fits {
				t.Error("a share of a MiB more has a card")
			}
			if _, reason := a.Allocate(&Used{}, minimum(whole(1), a.Inventory().GPUs[0].MemoryMiB)); !reason.IsZero() {
				t.Errorf("a whole card with all of its memory: %s", reason.Detail())
			}
		})
	}
}

func TestTwoHalvesOfWhatTheDriverLeaves(t *testing.T) {
	a, err := AllocatorOf(offering("1", "8", map[string]string{names.LabelNVIDIAMemory: "46068"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ share, fit int64 }{{23034, 1}, {22574, 1}, {22573, 2}, {22528, 2}} {
		var used Used
		if got := a.RoomFor(&used, share(1, tc.share)); got != tc.fit {
			t.Errorf("room for %d shares of %d MiB, want %d", got, tc.share, tc.fit)
		}
		for range tc.fit {
			used.Add(&mustPlaceOn(t, a, &used, tc.share).Holding)
		}
		_, reason := a.Allocate(&used, share(1, tc.share))
		if reason.Code != TooFewShareable || !reason.IsShortage() || reason.Reserved != (tc.fit == 1) {
			t.Errorf("one more of %d MiB: %+v, want a shortage, of what the driver keeps where two halves of the card are asked", tc.share, reason)
		}
	}
}

func mustPlaceOn(t *testing.T, a *Allocator, used *Used, mib int64) *Allocation {
	t.Helper()
	allocation := mustPlace(t, a, used, share(1, mib))
	return &allocation
}

// TestACardThatIsFullerThanItMayBe is what a scheduler that knew of no reserved memory has left behind: the pods stay, and nothing
// comes beside them until one has gone.
func TestACardThatIsFullerThanItMayBe(t *testing.T) {
	before := allocatorOf(t, inventory(1, sized(46068)))
	now := allocatorOf(t, inventory(1, sized(46068), reserving(640)))
	var used Used
	first := mustPlaceOn(t, before, &used, 23034)
	used.Add(&first.Holding)
	second := mustPlaceOn(t, before, &used, 23034)
	used.Add(&second.Holding)
	for _, mib := range []int64{1, 640, 23034} {
		if _, reason := now.Allocate(&used, share(1, mib)); reason.Code != TooFewShareable {
			t.Errorf("a share of %d MiB: %+v, want too little to share", mib, reason)
		}
		if room := now.RoomFor(&used, share(1, mib)); room != 0 {
			t.Errorf("room for %d shares of %d MiB, want none", room, mib)
		}
	}
	if err := used.Remove(&second.Holding); err != nil {
		t.Fatal(err)
	}
	if _, reason := now.Allocate(&used, share(1, 45428-23034)); !reason.IsZero() {
		t.Errorf("what one of them leaves: %s", reason.Detail())
	}
	if _, reason := now.Allocate(&used, share(1, 45428-23034+1)); reason.IsZero() {
		t.Error("a MiB of what the driver keeps is given to a share")
	}
}

// TestReservedMemoryIsPartOfTheBuild: nodes that differ in it alone are not taken for one another.
func TestReservedMemoryIsPartOfTheBuild(t *testing.T) {
	var known Topologies
	build := func(inv Inventory) *Hardware {
		a, err := NewAllocator(inv, &known)
		if err != nil {
			t.Fatal(err)
		}
		return a.Hardware()
	}
	if build(inventory(2)) == build(inventory(2, reserving(640))) {
		t.Error("cards of which the driver keeps 640 MiB are built like those of which it keeps nothing")
	}
}

func TestReservedMemoryIsChecked(t *testing.T) {
	for _, value := range []string{"-1", "16777217", `"640"`} {
		_, err := ParseInventory(`{"version":1,"gpus":[{"uuid":"GPU-a","index":0,"health":"Healthy","memoryMiB":46068,"reservedMiB":` + value + `}]}`)
		if err == nil {
			t.Errorf("reservedMiB %s is taken", value)
		}
	}
}

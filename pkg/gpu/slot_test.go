package gpu

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// replicated are the labels of two T4, each of which NVIDIA's device plugin offers so many times.
func replicated(strategy, replicas string) map[string]string {
	labels := map[string]string{
		names.LabelNVIDIAProduct: "Tesla-T4-SHARED", names.LabelNVIDIAMemory: "15360", names.LabelNVIDIACount: "2",
		names.LabelNVIDIAReplicas: replicas, names.LabelInterconnect: "nvlink",
	}
	if strategy != "" {
		labels[names.LabelNVIDIASharing] = strategy
	}
	return labels
}

// single are the labels of a node whose GPUs are cut into MIG slices that are offered as GPUs.
func single(profile, suffix string) map[string]string {
	return map[string]string{
		names.LabelNVIDIAMIGStrategy: "single", names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB-MIG-" + profile + suffix,
		names.LabelNVIDIAMemory: "9728", names.LabelInterconnect: "nvlink",
	}
}

func TestPartsOfGPUsAreNoCards(t *testing.T) {
	withReplicas := single("1g.10gb", "-SHARED")
	withReplicas[names.LabelNVIDIAReplicas], withReplicas[names.LabelNVIDIASharing] = "2", "time-slicing"
	invalid := single("INVALID", "")
	invalid[names.LabelNVIDIAReplicas] = "0"
	cases := map[string]struct {
		labels    map[string]string
		want      Slot
		memoryMiB int64
		milli     int64
		// cards and wholeCards are what 7 slots are, rounded up and down.
		cards, wholeCards int64
		wantErr           string
	}{
		"time-slicing":                       {labels: replicated("time-slicing", "4"), want: Slot{Sharing: "time-slicing", Replicas: 4}, memoryMiB: 3840, milli: 250, cards: 2, wholeCards: 1},
		"MPS":                                {labels: replicated("mps", "4"), want: Slot{Sharing: "mps", Replicas: 4}, memoryMiB: 3840, milli: 250, cards: 2, wholeCards: 1},
		"a version that names no strategy":   {labels: replicated("", "3"), want: Slot{Sharing: "replicas", Replicas: 3}, memoryMiB: 5120, milli: 333, cards: 3, wholeCards: 2},
		"nothing is shared":                  {labels: replicated("none", "1"), memoryMiB: 15360, milli: 1000, cards: 7, wholeCards: 7},
		"one replica":                        {labels: replicated("", "1"), memoryMiB: 15360, milli: 1000, cards: 7, wholeCards: 7},
		"a number without sense":             {labels: replicated("time-slicing", "many"), memoryMiB: 15360, milli: 1000, cards: 7, wholeCards: 7, wantErr: "reading label nvidia.com/gpu.replicas"},
		"MIG slices as GPUs":                 {labels: single("1g.10gb", ""), want: Slot{Sharing: "mig 1g.10gb", Sevenths: 1}, memoryMiB: 9728, milli: 142, cards: 1, wholeCards: 1},
		"larger slices":                      {labels: single("3g.40gb", ""), want: Slot{Sharing: "mig 3g.40gb", Sevenths: 3}, memoryMiB: 9728, milli: 428, cards: 3, wholeCards: 3},
		"slices that are shared":             {labels: withReplicas, want: Slot{Sharing: "mig 1g.10gb", Replicas: 2, Sevenths: 1}, memoryMiB: 4864, milli: 71, cards: 1, wholeCards: 0},
		"the strategy, and no card is cut":   {labels: map[string]string{names.LabelNVIDIAMIGStrategy: "single", names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB"}, milli: 1000, cards: 7, wholeCards: 7},
		"slices under names of their own":    {labels: map[string]string{names.LabelNVIDIAMIGStrategy: "mixed", names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}, milli: 1000, cards: 7, wholeCards: 7},
		"cards that are cut in several ways": {labels: invalid, memoryMiB: 9728, milli: 1000, cards: 7, wholeCards: 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inventory, err := InventoryOf(offering("8", "", tc.labels))
			if !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, inventory.Slot); diff != "" {
				t.Errorf("slot (-want +got):\n%s", diff)
			}
			if got := inventory.GPUs[7].MemoryMiB; got != tc.memoryMiB {
				t.Errorf("a slot may count on %d MiB, want %d", got, tc.memoryMiB)
			}
			if links := len(inventory.Links); links > 0 && !tc.want.IsWhole() {
				t.Errorf("parts of GPUs have %d links", links)
			}
			slot := inventory.Slot
			if milli, up, down := slot.MilliGPUs(), slot.GPUsForSlots(7), slot.WholeGPUs(7); milli != tc.milli || up != tc.cards || down != tc.wholeCards {
				t.Errorf("a slot is %d thousandths, and seven are %d to %d GPUs, want %d and %d to %d", milli, down, up, tc.milli, tc.wholeCards, tc.cards)
			}
		})
	}
}

// TestAPodGetsOneSlot: two could be of one GPU.
func TestAPodGetsOneSlot(t *testing.T) {
	allocator, err := AllocatorOf(offering("8", "", replicated("time-slicing", "4")), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(memory int64, counts ...int64) *Demand {
		d := &Demand{MemoryMinMiB: memory}
		for i, count := range counts {
			d.Containers = append(d.Containers, ContainerDemand{Name: fmt.Sprint(i), Whole: count})
		}
		return d
	}
	afterInit := whole(0, 1, 1)
	afterInit.Containers[0].Lifetime = Init
	cases := map[string]struct {
		demand *Demand
		room   int64
		want   Reason
	}{
		"one":                           {demand: whole(0, 1), room: 8},
		"one, and before it another":    {demand: afterInit, room: 8},
		"its part of the memory":        {demand: whole(3840, 1), room: 8},
		"more than its part":            {demand: whole(3841, 1), want: Reason{Code: TooFewMemory, Asked: 1, Total: 8, MemoryMiB: 3841, LargestMiB: 3840, Sharing: "time-slicing"}},
		"two":                           {demand: whole(0, 2), want: Reason{Code: OnlySlots, Asked: 2, Usable: 1, Total: 8, LargestMiB: 3840, Sharing: "time-slicing"}},
		"two containers with one each":  {demand: whole(0, 1, 1), want: Reason{Code: OnlySlots, Asked: 2, Usable: 1, Total: 8, LargestMiB: 3840, Sharing: "time-slicing"}},
		"more than there are of either": {demand: whole(0, 9), want: Reason{Code: OnlySlots, Asked: 9, Usable: 1, Total: 8, LargestMiB: 3840, Sharing: "time-slicing"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var used Used
			_, reason := allocator.Allocate(&used, tc.demand)
			if diff := cmp.Diff(tc.want, reason); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
			if room := allocator.RoomFor(&used, tc.demand); room != tc.room {
				t.Errorf("there is room for %d, want %d", room, tc.room)
			}
		})
	}
}

// TestAnInventoryIsOfCards: an agent that reports cards gives them out by UUID, whatever an older label says.
func TestAnInventoryIsOfCards(t *testing.T) {
	node := offering("2", "", replicated("time-slicing", "4"))
	node.Annotations = map[string]string{names.AnnotationInventory: `{"version":1,"gpus":[{"uuid":"GPU-a","index":0,"memoryMiB":15360,"health":"Healthy"}]}`}
	inventory, err := InventoryOf(node)
	if err != nil || !inventory.Slot.IsWhole() || inventory.GPUs[0].MemoryMiB != 15360 {
		t.Errorf("error %v, inventory %+v, want a whole card", err, inventory)
	}
}

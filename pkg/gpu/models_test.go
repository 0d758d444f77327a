package gpu

import (
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	display = "NVIDIA-DGX-Display"
	a100    = "NVIDIA-A100-SXM4-80GB"
)

// TestATypeHoldsForTheCard has a display card beside four A100: whatever the labels call the node, who names a type gets cards of it.
func TestATypeHoldsForTheCard(t *testing.T) {
	inv := inventory(5)
	for i := range inv.GPUs {
		inv.GPUs[i].Product = a100
	}
	inv.GPUs[0].Product = display
	text, err := inv.Encode()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		label, value string
		types        Types
		match        bool
		cards        int // that can be had
		want         Code
	}{
		"the type that the label names": {names.LabelNVIDIAProduct, a100, Types{Accepted: []string{a100}}, true, 4, TooFewOfType},
		"the label has flipped":         {names.LabelNVIDIAProduct, display, Types{Accepted: []string{a100}}, true, 4, TooFewOfType},
		"no label":                      {"", "", Types{Accepted: []string{a100}}, true, 4, TooFewOfType},
		"the display card":              {names.LabelNVIDIAProduct, a100, Types{Accepted: []string{display}}, true, 1, TooFewOfType},
		"either":                        {names.LabelNVIDIAProduct, a100, Types{Accepted: []string{display, a100}}, true, 5, TooFewGPUs},
		"any":                           {names.LabelNVIDIAProduct, a100, Types{}, true, 5, TooFewGPUs},
		"another":                       {names.LabelNVIDIAProduct, a100, Types{Accepted: []string{"Tesla-T4"}}, false, 0, TooFewOfType},
		"a selector":                    {names.LabelNVIDIAProduct, a100, Types{Selected: [][]string{{a100}}}, true, 4, TooFewOfType},
		"what an administrator calls the most of it": {names.LabelGPUType, "A100-80G", Types{Accepted: []string{"A100-80G"}}, true, 4, TooFewOfType},
		"the product, beside a name of our own":      {names.LabelGPUType, "A100-80G", Types{Accepted: []string{display}}, true, 1, TooFewOfType},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := offering("5", "", map[string]string{})
			if tc.label != "" {
				node.Labels[tc.label] = tc.value
			}
			node.Annotations = map[string]string{names.AnnotationInventory: text}
			if got := tc.types.MatchesNode(node); got != tc.match {
				t.Errorf("the node matches: %v, want %v", got, tc.match)
			}
			allocator, err := AllocatorOf(node, nil)
			if err != nil {
				t.Fatal(err)
			}
			var used Used
			one := &Demand{Types: tc.types, Containers: []ContainerDemand{{Name: "main", Whole: 1}}}
			if room := allocator.RoomFor(&used, one); room != int64(tc.cards) {
				t.Errorf("there is room for %d, want %d", room, tc.cards)
			}
			one.Containers[0].Whole = int64(tc.cards) + 1
			if _, reason := allocator.Allocate(&used, one); reason.Code != tc.want {
				t.Errorf("one more than there are: %+v, want code %d", reason, tc.want)
			}
		})
	}
}

// TestLabelsHoldForCardsOfOneModel, and for those of which the model of one is not known.
func TestLabelsHoldForCardsOfOneModel(t *testing.T) {
	for name, products := range map[string][]string{"one": {a100, a100}, "none": {"", ""}, "one unknown": {a100, ""}} {
		inv := inventory(2)
		inv.GPUs[0].Product, inv.GPUs[1].Product = products[0], products[1]
		text, err := inv.Encode()
		if err != nil {
			t.Fatal(err)
		}
		node := offering("2", "", map[string]string{names.LabelGPUType: "A100-80G"})
		node.Annotations = map[string]string{names.AnnotationInventory: text}
		allocator, _ := AllocatorOf(node, nil)
		other := Types{Accepted: []string{a100}}
		if other.MatchesNode(node) || len(ModelsOf(node)) > 0 || allocator.models != nil {
			t.Errorf("%s: the node's own type does not hold: models %v", name, allocator.models)
		}
	}
}

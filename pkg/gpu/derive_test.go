package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// offering returns a node with allocatable GPUs, "" for none of that kind.
func offering(whole, shared string, labels map[string]string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
	node.Status.Allocatable = corev1.ResourceList{}
	if whole != "" {
		node.Status.Allocatable[names.ResourceGPU] = resource.MustParse(whole)
	}
	if shared != "" {
		node.Status.Allocatable[names.ResourceSharedGPU] = resource.MustParse(shared)
	}
	return node
}

func TestInventoryOfADerivedNode(t *testing.T) {
	nvlink := []Link{{GPUs: []int{0, 1}, NVLinks: 1}}
	cases := map[string]struct {
		node      *corev1.Node
		cards     int
		memoryMiB int64
		links     []Link
		wantErr   string
	}{
		"no GPUs, no cards": {node: offering("", "", nil)},
		"allocatable counts": {
			node: offering("2", "", map[string]string{names.LabelNVIDIAMemory: "81559"}), cards: 2, memoryMiB: 81559,
		},
		"fewer allocatable than the label says: some are broken, and nobody knows which": {
			node: offering("2", "", map[string]string{names.LabelCount: "8", names.LabelNVIDIACount: "8"}), cards: 2,
		},
		"all broken": {
			node: offering("0", "", map[string]string{names.LabelCount: "8"}),
		},
		"only shared cards are counted by label": {
			node: offering("", "40", map[string]string{names.LabelCount: "4", names.LabelMemory: "24Gi"}), cards: 4, memoryMiB: 24576,
		},
		"discovery counts before the administrator": {
			node: offering("0", "40", map[string]string{names.LabelCount: "4", names.LabelNVIDIACount: "2"}), cards: 2,
		},
		"measured memory comes before the label": {
			node: offering("1", "", map[string]string{names.LabelMemory: "80Gi", names.LabelNVIDIAMemory: "81559"}), cards: 1, memoryMiB: 81559,
		},
		"NVLink links all": {
			node: offering("2", "", map[string]string{names.LabelInterconnect: "nvlink"}), cards: 2, links: nvlink,
		},
		"an NVLink clique links all": {
			node: offering("2", "", map[string]string{names.LabelNVIDIAClique: "c.0"}), cards: 2, links: nvlink,
		},
		"one card has nothing to link": {
			node: offering("1", "", map[string]string{names.LabelInterconnect: "nvlink"}), cards: 1,
		},
		"PCIe is no link": {
			node: offering("2", "", map[string]string{names.LabelInterconnect: "pcie"}), cards: 2,
		},
		"memory without sense is unknown": {
			node: offering("1", "", map[string]string{names.LabelNVIDIAMemory: "lots"}), cards: 1,
			wantErr: `reading label nvidia.com/gpu.memory: "lots" is no number from 1 to 16777216`,
		},
		"then the next label is read": {
			node: offering("1", "", map[string]string{names.LabelNVIDIAMemory: "-1", names.LabelMemory: "80Gi"}), cards: 1, memoryMiB: 81920,
			wantErr: `"-1" is no number`,
		},
		"a label quantity without sense": {
			node: offering("1", "", map[string]string{names.LabelMemory: "80GB"}), cards: 1, wantErr: "reading label gpu-memory",
		},
		"a count without sense": {
			node: offering("", "8", map[string]string{names.LabelCount: "many"}), wantErr: "reading label gpu-count",
		},
		"more than can be told apart": {
			node: offering("80", "", nil), cards: 64, wantErr: "the node offers 80 GPUs: only the first 64 are used",
		},
		"more than 63 bits": {
			node: offering("9223372036854775807", "", nil), cards: 64, wantErr: "only the first 64 are used",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := InventoryOf(tc.node)
			if !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			if len(got.GPUs) != tc.cards || !got.Derived {
				t.Fatalf("%d cards, derived %v, want %d, true", len(got.GPUs), got.Derived, tc.cards)
			}
			if tc.cards > 0 && got.GPUs[tc.cards-1].MemoryMiB != tc.memoryMiB {
				t.Errorf("memory is %d MiB, want %d", got.GPUs[0].MemoryMiB, tc.memoryMiB)
			}
			if diff := cmp.Diff(tc.links, got.Links); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("a derived inventory is invalid: %v", err)
			}
		})
	}
}

func TestInventoryOfAnAnnotatedNode(t *testing.T) {
	node := offering("2", "", nil)
	node.Annotations = map[string]string{names.AnnotationInventory: `{"version":1,"gpus":[{"uuid":"GPU-a","index":4,"health":"Healthy"}]}`}
	got, err := InventoryOf(node)
	want := Inventory{GPUs: []GPU{{UUID: "GPU-a", Index: 4, Health: Healthy}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, inventory (-want +got):\n%s", err, diff)
	}

	node.Annotations[names.AnnotationInventory] = `{"version":`
	got, err = InventoryOf(node)
	if !errorHas(err, "reading annotation g8s.host/gpu-inventory: unexpected end") {
		t.Errorf("error is %v", err)
	}
	if len(got.GPUs) != 2 || !got.Derived {
		t.Errorf("a malformed annotation leaves %d cards, derived %v; want the 2 of allocatable", len(got.GPUs), got.Derived)
	}
}

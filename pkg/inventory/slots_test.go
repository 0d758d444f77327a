package inventory

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestPartsOfGPUsAreNoWholeGPUs counts nodes whose device plugin offers parts of GPUs under the name of whole ones.
func TestPartsOfGPUsAreNoWholeGPUs(t *testing.T) {
	sliced := fixture.Node("n").GPUs(56, "").Label(names.LabelNVIDIAMIGStrategy, "single").Label(names.LabelNVIDIAProduct, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
	cases := map[string]struct {
		node  *corev1.Node
		used  int
		gpus  GPUs
		slots *Slots
	}{
		"whole GPUs": {node: fixture.Node("n").GPUs(8, "").Obj(), used: 3, gpus: GPUs{Allocatable: 8, Used: 3, Free: 5}},
		"time-slicing": {
			node: fixture.Node("n").GPUs(8, "").Label(names.LabelNVIDIAReplicas, "4").Label(names.LabelNVIDIASharing, "time-slicing").Obj(), used: 3,
			gpus: GPUs{Allocatable: 2, Used: 1, Free: 1}, slots: &Slots{Sharing: "time-slicing", GPUs: GPUs{Allocatable: 8, Used: 3, Free: 5}},
		},
		"MIG slices as GPUs": {
			node: sliced.Obj(), used: 8, gpus: GPUs{Allocatable: 8, Used: 2, Free: 6},
			slots: &Slots{Sharing: "mig 1g.10gb", GPUs: GPUs{Allocatable: 56, Used: 8, Free: 48}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for i := range tc.used {
				pod := fixture.Pod(fmt.Sprint("p", i)).GPUs(1).Obj()
				pod.Spec.NodeName = "n"
				pods = append(pods, *pod)
			}
			nodes := buildNodes([]corev1.Node{*tc.node}, pods, nil)
			if diff := cmp.Diff(tc.gpus, nodes[0].GPUs); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.slots, nodes[0].Slots); diff != "" {
				t.Errorf("slots (-want +got):\n%s", diff)
			}
			if offer := buildOffers(nodes)[0]; tc.slots != nil && (offer.MaxGPUs != 1 || offer.Sizes[0] != tc.slots.Allocatable) {
				t.Errorf("a pod may ask for %d of %v, want 1 of %d", offer.MaxGPUs, offer.Sizes, tc.slots.Allocatable)
			}
		})
	}
}

package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestATypeHoldsForTheCard has a display card beside two A100: a pod that insists on A100 never has the display card, whichever of the two
// the label names.
func TestATypeHoldsForTheCard(t *testing.T) {
	const display, a100 = "NVIDIA-DGX-Display", "NVIDIA-A100-SXM4-80GB"
	for _, label := range []string{a100, display} {
		t.Run(label, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(fixture.Node("dgx").GPUs(3, "").Label(names.LabelNVIDIAProduct, label).
				Annotate(names.AnnotationInventory, fixture.Cards("dgx", 81920, 81920, 81920).Products(display, a100, a100).Annotation(t)).Obj())
			asks := func(name, gpuType string) *corev1.Pod {
				return fixture.Pod(name).GPUs(1).Annotate(names.AnnotationGPUTypes, gpuType).Obj()
			}
			for _, name := range []string{"a", "b"} {
				e.createPods(asks(name, a100))
				if card := e.card(name); card == fixture.UUID("dgx", 0) {
					t.Errorf("pod %s insists on %s and has the display card", name, a100)
				}
			}
			e.createPods(asks("third", a100))
			if message, want := e.waitUnschedulable("third"), string(reason.ReasonForCode(gpu.TooFewFree).Text); !strings.Contains(message, want) {
				t.Errorf("the scheduler says %q, want %q", message, want)
			}
			e.createPods(asks("screen", display))
			if card, want := e.card("screen"), fixture.UUID("dgx", 0); card != want {
				t.Errorf("the pod that asks for the display card has %s, want %s", card, want)
			}
		})
	}
}

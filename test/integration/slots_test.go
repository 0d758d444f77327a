package integration

import (
	"fmt"
	"strings"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestPartsOfGPUsAreNoCards has NVIDIA's device plugin offer two T4 of 15 GiB four times each: no pod gets the memory of a whole one,
// none gets two parts, which could be of one GPU, and one that asks for what a part is gets it.
func TestPartsOfGPUsAreNoCards(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("t4").GPUs(8, "").Label(names.LabelNVIDIAProduct, "Tesla-T4-SHARED").Label(names.LabelNVIDIAMemory, "15360").
		Label(names.LabelNVIDIACount, "2").Label(names.LabelNVIDIAReplicas, "4").Label(names.LabelNVIDIASharing, "time-slicing").Obj())
	e.createPods(
		fixture.Pod("large").GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "12Gi").Obj(),
		fixture.Pod("several").GPUs(8).Obj())
	for pod, code := range map[string]gpu.Code{"large": gpu.TooFewMemory, "several": gpu.OnlySlots} {
		if message, want := e.waitUnschedulable(pod), string(reason.ReasonForCode(code).Text); !strings.Contains(message, want) {
			t.Errorf("of pod %s the scheduler says %q, want %q", pod, message, want)
		}
	}
	const slots = 8
	for i := range slots {
		e.createPods(fixture.Pod(fmt.Sprintf("small-%d", i)).GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "3840Mi").Obj())
	}
	e.waitAllBound(slots)
}

package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTypesAreTakenInTheirOrder has the second type offer more of everything that the other parts of a score look at.
func TestTypesAreTakenInTheirOrder(t *testing.T) {
	e := newEnv(t)
	e.createNodes(
		fixture.Node("second").GPUs(8, "A800-80G").Obj(),
		fixture.Node("first").GPUs(8, "A100-80G").Obj(),
		fixture.Node("third").GPUs(8, "H100-80G").Obj())
	asks := func(name string) *corev1.Pod {
		return fixture.Pod(name).GPUs(4).Annotate(names.AnnotationGPUTypes, "A100-80G, A800-80G").Obj()
	}
	for i, node := range e.runOneByOne(asks("a"), asks("b"), asks("c"), asks("d")) {
		if want := []string{"first", "first", "second", "second"}[i]; node != want {
			t.Errorf("pod %d went to node %s, want %s", i, node, want)
		}
	}
	e.createPods(asks("e"))
	t.Log(e.waitUnschedulable("e")) // the third type is not on the list
}

// TestTypesAreFoundUnderEachOfTheirLabels has nodes that carry one label alone.
func TestTypesAreFoundUnderEachOfTheirLabels(t *testing.T) {
	const gpuType = "NVIDIA-A100-SXM4-80GB"
	for _, label := range names.GPUTypeLabels {
		t.Run(label, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(
				fixture.Node("match").GPUs(8, "").Label(label, gpuType).Obj(),
				fixture.Node("other").GPUs(8, "").Label(label, "Tesla-T4").Obj())
			for _, pod := range []*fixture.PodBuilder{
				fixture.Pod("wished").Prefer(label, gpuType), // first, while nothing else speaks for the node
				fixture.Pod("listed").Annotate(names.AnnotationGPUTypes, gpuType),
				fixture.Pod("selected").Select(label, gpuType),
				fixture.Pod("required").Require(label, gpuType),
			} {
				if node := e.runOneByOne(pod.GPUs(2).Obj())[0]; node != "match" {
					t.Errorf("the pod whose type is %s went to node %s", pod.Obj().Name, node)
				}
			}
			e.createPods(fixture.Pod("none").GPUs(1).Annotate(names.AnnotationGPUTypes, "Tesla-V100").Obj())
			if message := e.waitUnschedulable("none"); !strings.Contains(message, "types: "+gpuType+", Tesla-T4") {
				t.Errorf("the scheduler says %q, want it to name the types that there are", message)
			}
		})
	}
}

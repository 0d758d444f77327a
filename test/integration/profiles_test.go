package integration

import (
	"fmt"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestPodsOfBothProfilesShareTheCards of one node: neither profile gives away what the other has given.
func TestPodsOfBothProfilesShareTheCards(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	e.createNodes(fixture.Node("dgx").GPUs(8, "V100-32G").Annotate(names.AnnotationInventory, fixture.DGX1("dgx").Annotation(t)).Obj())
	seen := map[string]string{}
	for i := range 8 {
		pod := fixture.Pod(fmt.Sprint("pod-", i)).GPUs(1).Obj()
		pod.Spec.SchedulerName = names.SchedulerNames()[i%2]
		e.createPods(pod)
	}
	for i := range 8 {
		name := fmt.Sprint("pod-", i)
		if other := seen[e.card(name)]; other != "" {
			t.Errorf("%s has the card of %s", name, other)
		}
		seen[e.card(name)] = name
	}
	waits := fixture.Pod("waits").GPUs(1).Obj()
	waits.Spec.SchedulerName = names.SchedulerPluginsName
	e.createPods(waits)
	e.waitUnschedulable("waits")
	check()
}

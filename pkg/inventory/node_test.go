package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestUnhealthyCardsAreNotFree has cards that the scheduler gives to nobody.
func TestUnhealthyCardsAreNotFree(t *testing.T) {
	cards := fixture.Cards("n", 1000, 1000, 1000, 1000).Unhealthy(0, 3).Annotation(t)
	cluster := Build(&snapshot.Snapshot{
		Nodes: []corev1.Node{*fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, cards).Obj()},
		Pods:  []corev1.Pod{pod("a", "n", "1", corev1.PodRunning)},
	})
	want := GPUs{Allocatable: 4, Used: 1, Free: 1, Unhealthy: 2}
	for what, got := range map[string]GPUs{
		"the node": cluster.Nodes[0].GPUs, "the pool": cluster.Pools[0].GPUs, "the type": cluster.Pools[0].Types[0].GPUs,
	} {
		if got != want {
			t.Errorf("%s has %+v, want %+v", what, got, want)
		}
	}
}

// TestMemoryIsReadAsTheSchedulerReadsIt has labels and an agent that contradict each other.
func TestMemoryIsReadAsTheSchedulerReadsIt(t *testing.T) {
	written := fixture.Node("n").GPUs(2, "A").Label(names.LabelMemory, "80Gi")
	tests := map[string]struct {
		node *corev1.Node
		want string
	}{
		"what somebody wrote":                {node: written.Obj(), want: "80Gi"},
		"what was measured comes first":      {node: written.Label(names.LabelNVIDIAMemory, "81559").Obj(), want: "81559Mi"},
		"what the agent saw comes before it": {node: written.Annotate(names.AnnotationInventory, fixture.Cards("n", 40960, 40960).Annotation(t)).Obj(), want: "40Gi"},
		"a node without a device plugin":     {node: fixture.Node("n").Label(names.LabelMemory, "80Gi").Obj(), want: "80Gi"},
		"a label that cannot be read":        {node: fixture.Node("n").GPUs(2, "A").Label(names.LabelMemory, "much").Obj(), want: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Build(&snapshot.Snapshot{Nodes: []corev1.Node{*tc.node}}).Nodes[0].MemoryPerGPU; got != tc.want {
				t.Errorf("memory %q, want %q", got, tc.want)
			}
			cards, _ := gpu.InventoryOf(tc.node)
			if len(cards.GPUs) > 0 && memoryPerGPU(cards.GPUs[0].MemoryMiB) != tc.want {
				t.Errorf("the scheduler reads %d MiB, want %s", cards.GPUs[0].MemoryMiB, tc.want)
			}
		})
	}
}

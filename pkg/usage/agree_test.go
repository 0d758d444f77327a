package usage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestOneAnswer has every surface tell the same of what is free on a node: gpuctl top and the lists of nodes and pools.
func TestOneAnswer(t *testing.T) {
	four := []int64{1000, 1000, 1000, 1000}
	agent := func(unhealthy ...int) string {
		return fixture.Cards("n", four...).Unhealthy(unhealthy...).Annotation(t)
	}
	held := fixture.Pod("a").GPUs(1).Obj()
	held.Spec.NodeName, held.Status.Phase = "n", corev1.PodRunning
	cordoned := fixture.Node("n").GPUs(4, "A").Obj()
	cordoned.Spec.Unschedulable = true
	nodes := map[string]*corev1.Node{
		"healthy":        fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, agent()).Obj(),
		"two unhealthy":  fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, agent(1, 2)).Obj(),
		"all unhealthy":  fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, agent(0, 1, 2, 3)).Obj(),
		"two withdrawn":  fixture.Node("n").GPUs(4, "A").AllocatableGPUs(2).Annotate(names.AnnotationInventory, agent(1, 2)).Obj(),
		"without agent":  fixture.Node("n").GPUs(4, "A").Obj(),
		"malformed":      fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, "{").Obj(),
		"cordoned":       cordoned,
		"a card unnamed": fixture.Node("n").GPUs(4, "A").Annotate(names.AnnotationInventory, fixture.Cards("n", 1000, 1000).Annotation(t)).Obj(),
	}
	for name, node := range nodes {
		for _, pods := range [][]corev1.Pod{nil, {*held}} {
			t.Run(fmt.Sprintf("%s, %d pods", name, len(pods)), func(t *testing.T) {
				read := &snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: pods}
				top, cluster := Build(read, gpumetrics.Samples{}), inventory.Build(read)
				free := cluster.Nodes[0].GPUs.Free
				if top.Nodes[0].Free != free || top.Pools[0].Free != free || top.Total.Free != free || cluster.Pools[0].GPUs.Free != free {
					t.Errorf("free: top nodes says %d, top pools %d, top %d, get nodes %d, get pools %d",
						top.Nodes[0].Free, top.Pools[0].Free, top.Total.Free, free, cluster.Pools[0].GPUs.Free)
				}
			})
		}
	}
}

package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestSlicesAreCounted: a node whose only card is in MIG mode has slices, and no GPU.
func TestSlicesAreCounted(t *testing.T) {
	const profile = "3g.40gb"
	text, err := gpu.EncodeSlices([]gpu.Slice{
		{UUID: "MIG-a", Profile: profile, ParentUUID: "GPU-c", GPU: 2, MemoryMiB: 40960, Health: gpu.Healthy, Pod: "uid"},
		{UUID: "MIG-b", Profile: profile, ParentUUID: "GPU-c", GPU: 2, MemoryMiB: 40960, Health: gpu.Healthy},
	})
	if err != nil {
		t.Fatal(err)
	}
	sliced := node(t, "mig-01", "lab")
	sliced.Annotations = map[string]string{names.AnnotationSlices: text}
	sliced.Status.Allocatable = corev1.ResourceList{names.ResourceMIGPrefix + profile: resource.MustParse("2")}
	holder := pod(t, "lab", "mig-01", "1", names.ResourceMIGPrefix+profile)
	holder.UID = "uid"
	got := Build(&snapshot.Snapshot{Nodes: []corev1.Node{sliced, node(t, "whole", "p")}, Pods: []corev1.Pod{holder}}, gpumetrics.Samples{})

	counted := []inventory.ProfileCount{{Profile: profile, Allocatable: 2, Used: 1, Free: 1}}
	if len(got.Nodes) != 2 || got.Nodes[0].GPUs != 0 || !cmp.Equal(got.Nodes[0].MIG, counted) || got.Nodes[1].MIG != nil {
		t.Errorf("the nodes are %+v", got.Nodes)
	}
	if len(got.Pools) != 2 || !cmp.Equal(got.Pools[0].MIG, counted) || !cmp.Equal(got.Total.MIG, counted) || got.Total.GPUs != 4 {
		t.Errorf("the pools are %+v, all of it %+v", got.Pools, got.Total)
	}
	if len(got.Jobs) != 1 || got.Jobs[0].GPUs != 0 || !cmp.Equal(got.Jobs[0].MIG, []inventory.AskedProfile{{Profile: profile, Count: 1}}) {
		t.Errorf("the jobs are %+v", got.Jobs)
	}
	want := []GPU{
		{Node: "mig-01", Index: 2, UUID: "MIG-a", Profile: profile, Pool: "lab", GPUType: "A100-80G", MemoryMiB: 40960, State: Whole,
			Holders: []Holder{{Namespace: "team", Job: "lab", Pod: "lab-x"}}},
		{Node: "mig-01", Index: 2, UUID: "MIG-b", Profile: profile, Pool: "lab", GPUType: "A100-80G", MemoryMiB: 40960, State: Free},
	}
	if diff := cmp.Diff(want, got.Slices); diff != "" || len(got.GPUs) != 4 {
		t.Errorf("there are %d GPUs, and slices (-want +got):\n%s", len(got.GPUs), diff)
	}
}

package coscheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// nodeInfo is a node with pods on it.
func nodeInfo(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

func TestRoomForGangs(t *testing.T) {
	group := types.NamespacedName{Namespace: "ns", Name: "g"}
	of := func(pod *corev1.Pod, group string) *corev1.Pod {
		pod.Namespace = "ns"
		pod.Labels = map[string]string{names.LabelPodGroup: group}
		return pod
	}
	wants := func(gpus int64) *corev1.Pod { return of(fixture.Pod("p").GPUs(gpus).Obj(), "g") }
	cordoned := fixture.Node("c").GPUs(8, "T4").Obj()
	cordoned.Spec.Unschedulable = true
	tests := map[string]struct {
		pod     *corev1.Pod
		members int
		nodes   []fwk.NodeInfo
		want    fwk.Code
	}{
		"room for all": {
			wants(8), 2, []fwk.NodeInfo{nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()), nodeInfo(fixture.Node("b").GPUs(8, "T4").Obj())}, fwk.Success,
		},
		"two on one node": {wants(4), 2, []fwk.NodeInfo{nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj())}, fwk.Success},
		"room for one of two, as another pod is in the way": {
			wants(8), 2, []fwk.NodeInfo{
				nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()),
				nodeInfo(fixture.Node("b").GPUs(8, "T4").Obj(), fixture.Pod("x").GPUs(1).Obj()),
			}, fwk.Unschedulable,
		},
		"members that have a place need none": {
			wants(8), 2, []fwk.NodeInfo{
				nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj(), wants(8)), nodeInfo(fixture.Node("b").GPUs(8, "T4").Obj()),
			}, fwk.Success,
		},
		"members of another gang have the place": {
			wants(8), 2, []fwk.NodeInfo{
				nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj(), of(fixture.Pod("x").GPUs(8).Obj(), "h")), nodeInfo(fixture.Node("b").GPUs(8, "T4").Obj()),
			}, fwk.Unschedulable,
		},
		"too few nodes even when empty, so eviction cannot help": {
			wants(8), 2, []fwk.NodeInfo{nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj())}, fwk.UnschedulableAndUnresolvable,
		},
		"nodes of another pool are no room": {
			wants(8), 2, []fwk.NodeInfo{
				nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()), nodeInfo(fixture.Node("b").Pool("other").GPUs(8, "T4").Obj()),
			}, fwk.UnschedulableAndUnresolvable,
		},
		"nodes of another type are no room": {
			of(fixture.Pod("p").GPUs(8).Type("T4").Obj(), "g"), 2, []fwk.NodeInfo{
				nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()), nodeInfo(fixture.Node("b").GPUs(8, "A10").Obj()),
			}, fwk.UnschedulableAndUnresolvable,
		},
		"cordoned nodes are no room": {
			wants(8), 2, []fwk.NodeInfo{nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()), nodeInfo(cordoned)}, fwk.UnschedulableAndUnresolvable,
		},
		"without GPUs there is always room": {of(fixture.Pod("p").Obj(), "g"), 99, []fwk.NodeInfo{nodeInfo(fixture.Node("a").Obj())}, fwk.Success},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := roomFor(tc.pod, group, tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if got := found.verdict(tc.members); got.Code() != tc.want {
				t.Errorf("got %v of %+v, want %v", got, found, tc.want)
			}
		})
	}
}

func TestAlike(t *testing.T) {
	worker := fixture.Pod("a").GPUs(8).Obj()
	if !alike(worker, fixture.Pod("b").GPUs(8).Obj()) {
		t.Error("two workers are not alike")
	}
	for what, other := range map[string]*corev1.Pod{
		"a launcher without GPUs": fixture.Pod("b").Obj(), "a worker in another pool": fixture.Pod("b").GPUs(8).Pool("x").Obj(),
		"a worker of another type": fixture.Pod("b").GPUs(8).Annotate(names.AnnotationGPUTypes, "T4").Obj(),
		"a worker with a helper":   fixture.Pod("b").GPUs(8).Container("c", 1).Obj(),
	} {
		if alike(worker, other) {
			t.Errorf("a worker is taken to be like %s", what)
		}
	}
}

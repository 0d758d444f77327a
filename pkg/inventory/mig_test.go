package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestSlicesAreCounted has two nodes with slices, of which one takes no pods, and one pod that holds two.
func TestSlicesAreCounted(t *testing.T) {
	sliced := func(name string, small, large int64) *corev1.Node {
		node := fixture.Node(name).Obj()
		node.Status.Allocatable["nvidia.com/mig-1g.5gb"] = *resource.NewQuantity(small, resource.DecimalSI)
		node.Status.Allocatable["nvidia.com/mig-3g.20gb"] = *resource.NewQuantity(large, resource.DecimalSI)
		return node
	}
	closed := sliced("b", 0, 4)
	closed.Spec.Unschedulable = true
	holder := pod("p", "a", "0", corev1.PodRunning)
	holder.Spec.Containers[0].Resources.Requests["nvidia.com/mig-1g.5gb"] = resource.MustParse("2")
	cluster := Build(&snapshot.Snapshot{Nodes: []corev1.Node{*sliced("a", 3, 1), *closed}, Pods: []corev1.Pod{holder}})
	want := []ProfileCount{{Profile: "1g.5gb", Allocatable: 3, Used: 2, Free: 1}, {Profile: "3g.20gb", Allocatable: 1, Free: 1}}
	if diff := cmp.Diff(want, cluster.Nodes[0].MIG); diff != "" {
		t.Errorf("slices of the node (-want +got):\n%s", diff)
	}
	want[1].Allocatable = 5
	if diff := cmp.Diff(want, cluster.Pools[0].MIG); diff != "" {
		t.Errorf("slices of the pool (-want +got):\n%s", diff)
	}
	most := []ProfileCount{{Profile: "1g.5gb", Allocatable: 3}, {Profile: "3g.20gb", Allocatable: 4}}
	if diff := cmp.Diff(most, cluster.Offers()[0].MIG); diff != "" {
		t.Errorf("what one node offers at most (-want +got):\n%s", diff)
	}
}

// TestSlicesOfABrokenCardAreNotFree, though kubelet counts them for some seconds.
func TestSlicesOfABrokenCardAreNotFree(t *testing.T) {
	cards := fixture.Cards("a", 81920, 81920).Unhealthy(1).Sliced("1g.5gb", 2, 0, 1).Annotation(t)
	node := fixture.Node("a").Slices("1g.5gb", 4).Annotate(names.AnnotationInventory, cards).Obj()
	holder := fixture.Pod("p").Slices("1g.5gb", 1).Obj()
	holder.Spec.NodeName = "a"
	cluster := Build(&snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{*holder}})
	want := []ProfileCount{{Profile: "1g.5gb", Allocatable: 4, Used: 1, Free: 1}}
	if diff := cmp.Diff(want, cluster.Nodes[0].MIG); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}

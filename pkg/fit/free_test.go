package fit

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestFreeGPUs compares what is said to be free with how many pods of one GPU the scheduler's allocator finds cards for.
func TestFreeGPUs(t *testing.T) {
	eight := []int64{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}
	agent := func(unhealthy ...int) string {
		return fixture.Cards("n", eight...).Unhealthy(unhealthy...).Annotation(t)
	}
	tests := map[string]struct {
		node *corev1.Node
		pods []*corev1.Pod
		want int64
	}{
		"all cards of an idle node": {node: fixture.Node("n").GPUs(8, "A").Obj(), want: 8},
		"cards that are not healthy are not free": {
			node: fixture.Node("n").GPUs(8, "A").Annotate(names.AnnotationInventory, agent(0, 7)).Obj(), want: 6,
		},
		"cards that pods hold are counted once, whichever these are": {
			node: fixture.Node("n").GPUs(8, "A").Annotate(names.AnnotationInventory, agent(0, 7)).Obj(),
			pods: []*corev1.Pod{on("n", fixture.Pod("a").GPUs(3).Obj())}, want: 3,
		},
		"the device plugin has withdrawn the cards that are not healthy": {
			node: fixture.Node("n").GPUs(8, "A").AllocatableGPUs(6).Annotate(names.AnnotationInventory, agent(0, 7)).Obj(),
			pods: []*corev1.Pod{on("n", fixture.Pod("a").GPUs(2).Obj())}, want: 4,
		},
		"a device plugin that offers fewer than the agent saw": {
			node: fixture.Node("n").GPUs(8, "A").AllocatableGPUs(2).Annotate(names.AnnotationInventory, agent()).Obj(), want: 2,
		},
		"an agent that saw fewer than the device plugin offers": {
			node: fixture.Node("n").GPUs(8, "A").Annotate(names.AnnotationInventory, fixture.Cards("n", 1000, 1000).Annotation(t)).Obj(), want: 2,
		},
		"a node that has just registered": {
			node: &corev1.Node{}, pods: []*corev1.Pod{on("", fixture.Pod("a").CPU(1).Obj())}, want: 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := NewNode(tc.node, tc.pods, nil)
			if got := node.FreeGPUs(); got != tc.want {
				t.Errorf("%d GPUs are free, want %d", got, tc.want)
			}
			placed := int64(0)
			for node.PlacePod(requestOf(t, fixture.Pod(fmt.Sprint("p", placed)).GPUs(1).Obj())) {
				placed++
			}
			if placed != tc.want {
				t.Errorf("%d pods find a card, want %d", placed, tc.want)
			}
		})
	}
}

// TestFreeSlots has a card that is not healthy among those that pods share.
func TestFreeSlots(t *testing.T) {
	cards := fixture.Cards("n", 16000, 16000, 16000, 16000).Unhealthy(1).Annotation(t)
	object := fixture.Node("n").SharedGPUs(4, 40).Annotate(names.AnnotationInventory, cards).Obj()
	node := NewNode(object, []*corev1.Pod{on("n", fixture.Pod("a").SharedGPUs(2, "2Gi").Obj())}, nil)
	if got := node.FreeSlots(); got != 28 {
		t.Errorf("%d slots are free, want 28: 40, less 10 of the sick card, less 2 in use", got)
	}
	none := fixture.Node("n").Obj()
	none.Status.Allocatable[names.ResourceSharedGPU] = resource.MustParse("40")
	if got := NewNode(none, nil, nil).FreeSlots(); got != 0 {
		t.Errorf("%d slots are free on a node whose cards nothing tells, want 0", got)
	}
}

// TestSharedMemory has the cards that are not healthy left out, and shares counted whose cards are not known.
func TestSharedMemory(t *testing.T) {
	cards := fixture.Cards("n", 16000, 16000, 16000, 16000).Unhealthy(1).Annotation(t)
	object := fixture.Node("n").SharedGPUs(4, 40).Annotate(names.AnnotationInventory, cards).Obj()
	one := NewNode(object, nil, nil).ShareableMemory()
	all, held := NewNode(object, []*corev1.Pod{on("n", fixture.Pod("a").SharedGPUs(2, "2Gi").Obj())}, nil).SharedMemory()
	if all != 3*one || held != 2*2048 {
		t.Errorf("%d of %d MiB are held, want %d of %d", held, all, 2*2048, 3*one)
	}
	if all, _ := NewNode(fixture.Node("n").SharedGPUs(4, 40).Obj(), nil, nil).SharedMemory(); all != 0 {
		t.Errorf("shares can hold %d MiB of cards of which nothing tells the memory", all)
	}
}

package fit

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

const small = "1g.10gb"

// sliced is a node of two cards in MIG mode with two slices each, of which kubelet counts so many, and of which some cards are broken.
func sliced(t *testing.T, counted int, broken ...int) *fixture.NodeBuilder {
	t.Helper()
	cards := fixture.Cards("n", 81920, 81920).Unhealthy(broken...).Sliced(small, 2, 0, 1).Annotation(t)
	return fixture.Node("n").Slices(small, counted).Annotate(names.AnnotationInventory, cards)
}

// asks is a pod that asks for slices, which another scheduler has put on a node where it is on one.
func asks(name string, count int64) *corev1.Pod { return fixture.Pod(name).Slices(small, count).Obj() }

// has is a pod on the node to which the scheduler has given a slice of a card.
func has(name string, card, slice int) *corev1.Pod {
	pod := on("n", asks(name, 1))
	pod.Annotations = map[string]string{names.AnnotationGPUDevices: fmt.Sprintf(`{"version":1,"slices":{"main":[{"uuid":%q,"profile":%q,"card":%q,"gpu":%d}]}}`,
		fixture.SliceUUID(fixture.UUID("n", card), slice), small, fixture.UUID("n", card), card)}
	return pod
}

// TestSlicesAreCountedAsTheSchedulerDoes compares what is said of slices with how many pods of one slice find one.
func TestSlicesAreCountedAsTheSchedulerDoes(t *testing.T) {
	short := []Obstacle{{Kind: ResourceShort, What: names.ResourceMIGPrefix + small}}
	tests := map[string]struct {
		node *corev1.Node
		pods []*corev1.Pod
		free int64
		// what is in the way of a pod of three, and what is said of the cards then
		want  []Obstacle
		cards gpu.Reason
	}{
		"an idle node": {node: sliced(t, 4).Obj(), free: 4},
		"slices that pods hold, named or not": {
			node: sliced(t, 4).Obj(), pods: []*corev1.Pod{has("a", 0, 1), on("n", asks("b", 1))}, free: 2, want: short,
		},
		"kubelet counts those of a broken card still": {
			node: sliced(t, 4, 0).Obj(), free: 2,
			want: []Obstacle{{Kind: Cards}}, cards: gpu.Reason{Code: gpu.TooFewHealthy, Asked: 3, Usable: 2, Total: 4, Profile: small},
		},
		"kubelet has taken those of a broken card away": {
			node: sliced(t, 2, 0).Obj(), free: 2,
			want: []Obstacle{{Kind: Cards}}, cards: gpu.Reason{Code: gpu.TooFewHealthy, Asked: 3, Usable: 2, Total: 4, Profile: small},
		},
		"whoever has a slice of the broken card takes none of the others": {
			node: sliced(t, 4, 0).Obj(), pods: []*corev1.Pod{has("a", 0, 0)}, free: 2,
			want: []Obstacle{{Kind: Cards}}, cards: gpu.Reason{Code: gpu.TooFewHealthy, Asked: 3, Usable: 2, Total: 4, Profile: small},
		},
		"kubelet offers fewer than there are": {node: sliced(t, 1).Obj(), free: 1, want: short},
		"another profile": {
			node: fixture.Node("n").Slices("3g.40gb", 4).Annotate(names.AnnotationInventory, fixture.Cards("n", 81920).Sliced("3g.40gb", 2, 0).Annotation(t)).Obj(),
			want: short,
		},
		"a node that names none": {node: fixture.Node("n").Slices(small, 4).Obj(), pods: []*corev1.Pod{on("n", asks("a", 1))}, free: 3},
		"pods that ask for all that there could be": {
			node: fixture.Node("n").Slices(small, 4).Obj(), pods: []*corev1.Pod{on("n", asks("a", math.MaxInt64)), on("n", asks("b", math.MaxInt64))}, want: short,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := NewNode(tc.node, tc.pods, nil)
			if got := node.FreeSlices(small); got != tc.free {
				t.Errorf("%d slices are free, want %d", got, tc.free)
			}
			obstacles, cards := requestOf(t, asks("three", 3)).Obstacles(node)
			if diff := cmp.Diff(tc.want, obstacles); diff != "" || cards != tc.cards {
				t.Errorf("of the cards %+v, want %+v; obstacles (-want +got):\n%s", cards, tc.cards, diff)
			}
			placed := int64(0)
			for node.PlacePod(requestOf(t, asks(fmt.Sprint("p", placed), 1))) {
				placed++
			}
			if placed != tc.free {
				t.Errorf("%d pods find a slice, want %d", placed, tc.free)
			}
		})
	}
}

// TestPodsWithSlicesComeAndGo: two pods that claim one slice do not free it when one of them leaves.
func TestPodsWithSlicesComeAndGo(t *testing.T) {
	first, second := has("a", 0, 0), has("b", 0, 0)
	node := NewNode(sliced(t, 4).Obj(), []*corev1.Pod{first, second, has("c", 1, 1)}, nil)
	steps := []struct {
		what string
		step func()
		want int64
	}{
		{"all are there", func() {}, 1},
		{"one of two is gone", func() { node.RemovePod(first) }, 2},
		{"both are gone", func() { node.RemovePod(second) }, 3},
	}
	for _, s := range steps {
		s.step()
		if got := node.FreeSlices(small); got != s.want {
			t.Errorf("%s: %d slices are free, want %d", s.what, got, s.want)
		}
	}
	three := requestOf(t, asks("three", 3))
	if !node.PlacePod(three) || node.FreeSlices(small) != 0 {
		t.Errorf("a pod of three is not placed on three free slices, of which %d are left", node.FreeSlices(small))
	}
	node.RemovePod(three.Pod)()
	if got := node.FreeSlices(small); got != 0 {
		t.Errorf("put back, it leaves %d slices", got)
	}
}

// TestACardAndSlices: a broken card in MIG mode is not in the way of a pod of whole GPUs.
func TestACardAndSlices(t *testing.T) {
	cards := fixture.Cards("n", 81920, 81920).Unhealthy(1).Sliced(small, 2, 1).Annotation(t)
	node := NewNode(fixture.Node("n").GPUs(1, "A").Slices(small, 2).Annotate(names.AnnotationInventory, cards).Obj(), nil, nil)
	if obstacles, _ := requestOf(t, fixture.Pod("whole").GPUs(1).Obj()).Obstacles(node); len(obstacles) > 0 {
		t.Errorf("in the way of a whole GPU are %v", obstacles)
	}
	obstacles, reason := requestOf(t, fixture.Pod("both").GPUs(1).Slices(small, 1).Obj()).Obstacles(node)
	if diff := cmp.Diff([]Obstacle{{Kind: Cards}}, obstacles); diff != "" || reason.Code != gpu.TooFewHealthy {
		t.Errorf("reason %+v, obstacles (-want +got):\n%s", reason, diff)
	}
}

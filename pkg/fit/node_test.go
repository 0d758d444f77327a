package fit

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

func requestOf(t *testing.T, pod *corev1.Pod) *Request {
	t.Helper()
	request, err := RequestOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// on is a pod that another scheduler put on a node: its cards are not known.
func on(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = node
	return pod
}

func TestObstacles(t *testing.T) {
	tests := map[string]struct {
		node *corev1.Node
		pods []*corev1.Pod
		pod  *corev1.Pod
		want []Obstacle
	}{
		"nothing is in the way": {node: fixture.Node("n").GPUs(8, "A").Obj(), pod: fixture.Pod("p").GPUs(8).Obj()},
		"all that is in the way is found, not the first alone": {
			node: fixture.Node("n").GPUs(8, "A").Obj(), pods: []*corev1.Pod{on("n", fixture.Pod("a").GPUs(1).CPU(120).Obj())},
			pod:  fixture.Pod("p").GPUs(8).CPU(64).Select("disk", "fast").Obj(),
			want: []Obstacle{{Kind: NodeSelector}, {Kind: Cards}, {Kind: CPUShort}},
		},
		"a cordoned node": {
			node: cordoned(fixture.Node("n").GPUs(8, "A").Obj()), pod: fixture.Pod("p").GPUs(1).Obj(), want: []Obstacle{{Kind: Cordoned}},
		},
		"a device plugin that has just lost cards": {
			node: fixture.Node("n").GPUs(8, "A").AllocatableGPUs(2).Obj(), pod: fixture.Pod("p").GPUs(4).Obj(), want: []Obstacle{{Kind: Cards}},
		},
		"an agent that has gone, and what kubelet offers without it": {
			node: withAgent(t, fixture.Node("n").AllocatableGPUs(0).Obj(), corev1.ConditionTrue), pod: fixture.Pod("p").GPUs(1).Obj(), want: []Obstacle{{Kind: AgentAway}},
		},
		"an agent that is away, and more cards than the node has": {
			node: withAgent(t, fixture.Node("n").AllocatableGPUs(0).Obj(), corev1.ConditionTrue), pod: fixture.Pod("p").GPUs(3).Obj(), want: []Obstacle{{Kind: Cards}},
		},
		"an agent that says so itself": {
			node: withAgent(t, fixture.Node("n").AllocatableGPUs(2).Obj(), corev1.ConditionFalse), pod: fixture.Pod("p").GPUs(1).Obj(), want: []Obstacle{{Kind: AgentAway}},
		},
		"an agent that is away, and a pod without GPUs": {
			node: withAgent(t, fixture.Node("n").AllocatableGPUs(0).Obj(), corev1.ConditionFalse), pod: fixture.Pod("p").Obj(),
		},
		"a pod without GPUs needs no cards": {node: fixture.Node("n").Obj(), pod: fixture.Pod("p").Obj()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := requestOf(t, tc.pod).Obstacles(NewNode(tc.node, tc.pods, nil))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("obstacles (-want +got):\n%s", diff)
			}
		})
	}
}

// withAgent adds what a gpu-agent says of a node: two healthy cards, and whether it gives them out.
func withAgent(t *testing.T, node *corev1.Node, serves corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	node.Annotations = map[string]string{names.AnnotationInventory: fixture.Cards("n", 1<<10, 1<<10).Annotation(t)}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: names.ConditionAgentReady, Status: serves})
	return node
}

func cordoned(node *corev1.Node) *corev1.Node {
	node.Spec.Unschedulable = true
	return node
}

// TestPodsComeAndGo fills a node, and empties it again.
func TestPodsComeAndGo(t *testing.T) {
	var topologies gpu.Topologies
	node := NewNode(fixture.Node("n").GPUs(8, "A").Obj(), nil, &topologies)
	before := node.Free.DeepCopy()
	var pods []*corev1.Pod
	for i := range 4 {
		pods = append(pods, fixture.Pod(fmt.Sprint("p", i)).GPUs(2).Obj())
		if !node.PlacePod(requestOf(t, pods[i])) {
			t.Fatalf("pod %d finds no place", i)
		}
	}
	one := requestOf(t, fixture.Pod("one").GPUs(1).Obj())
	if node.IdleGPUs() != 0 || node.PlacePod(one) {
		t.Fatalf("%d cards are free of 8 that pods hold", node.IdleGPUs())
	}
	held := node.HoldingOf(pods[1])
	back := node.RemovePod(pods[1])
	if node.IdleGPUs() != 2 {
		t.Errorf("%d cards are free without a pod of 2", node.IdleGPUs())
	}
	back()
	if got := node.HoldingOf(pods[1]); got != held || node.IdleGPUs() != 0 {
		t.Errorf("put back, the pod holds %v, want %v", got.Whole, held.Whole)
	}
	for _, pod := range pods {
		node.RemovePod(pod)
		node.RemovePod(pod) // no more than once
	}
	if diff := cmp.Diff(before, node.Free); diff != "" || node.IdleGPUs() != 8 || node.CountPods() != 0 {
		t.Errorf("emptied, the node has %d cards and %d pods; free (-want +got):\n%s", node.IdleGPUs(), node.CountPods(), diff)
	}
}

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// soon is how long it may take on a busy machine from the change that makes room to the pod's binding, a second of back-off with
// it. The scheduler's periodic flush would take five minutes.
var soon = bounds.Of(15 * time.Second)

func TestPendingPodsAreWokenByWhatHelpsThem(t *testing.T) {
	tests := map[string]struct {
		nodes []*corev1.Node
		// before holds pods that run before the pod waits.
		before []*corev1.Pod
		pod    *corev1.Pod
		// want are parts of the message while the pod waits.
		want []string
		// help is the event after which the pod must run, and node is where.
		help func(e *env)
		node string
	}{
		"a node of the type appears": {
			nodes: []*corev1.Node{fixture.Node("other").Pool("p").GPUs(8, "T4-16G").Obj()},
			pod:   fixture.Pod("pod").GPUs(1).Pool("p").Type("A100-80G").Obj(),
			want:  []string{"A100-80G"},
			help: func(e *env) {
				e.createNodes(fixture.Node("match").Pool("p").GPUs(8, "A100-80G").Obj())
			},
			node: "match",
		},
		"a node is labelled with the type": {
			nodes: []*corev1.Node{fixture.Node("node").Pool("p").GPUs(8, "T4-16G").Obj()},
			pod:   fixture.Pod("pod").GPUs(1).Pool("p").Annotate(names.AnnotationGPUTypes, "A100-80G").Obj(),
			want:  []string{"A100-80G"},
			help: func(e *env) {
				e.updateNode("node", func(node *corev1.Node) { node.Labels[names.LabelGPUType] = "A100-80G" })
			},
			node: "node",
		},
		"a node joins the pool": {
			nodes: []*corev1.Node{fixture.Node("node").GPUs(8, "A100-80G").Obj()},
			pod:   fixture.Pod("pod").GPUs(1).Label(names.LabelPool, "p").Obj(),
			want:  []string{"pool"},
			help: func(e *env) {
				e.updateNode("node", func(node *corev1.Node) { node.Labels[names.LabelPool] = "p" })
			},
			node: "node",
		},
		"failed GPUs come back": {
			nodes: []*corev1.Node{fixture.Node("node").Pool("p").GPUs(8, "A100-80G").AllocatableGPUs(4).Obj()},
			pod:   fixture.Pod("pod").GPUs(8).Pool("p").Obj(),
			want:  []string{"GPU"},
			help: func(e *env) {
				e.updateNode("node", func(node *corev1.Node) {
					node.Status.Allocatable[names.ResourceGPU] = resource.MustParse("8")
				})
			},
			node: "node",
		},
		"a node is uncordoned": {
			nodes: []*corev1.Node{cordoned(fixture.Node("node").Pool("p").GPUs(8, "A100-80G").Obj())},
			pod:   fixture.Pod("pod").GPUs(1).Pool("p").Obj(),
			want:  []string{"unschedulable"},
			help: func(e *env) {
				e.updateNode("node", func(node *corev1.Node) {
					node.Spec.Unschedulable = false
					node.Spec.Taints = nil
				})
			},
			node: "node",
		},
		"a pod that holds the GPUs is deleted": {
			nodes:  []*corev1.Node{fixture.Node("node").Pool("p").GPUs(8, "A100-80G").Obj()},
			before: []*corev1.Pod{fixture.Pod("holder").GPUs(8).Pool("p").Obj()},
			pod:    fixture.Pod("pod").GPUs(1).Pool("p").Obj(),
			want:   []string{"GPU"},
			help:   func(e *env) { e.deletePod("holder") },
			node:   "node",
		},
		"a pod that holds the GPUs ends": {
			nodes:  []*corev1.Node{fixture.Node("node").Pool("p").GPUs(8, "A100-80G").Obj()},
			before: []*corev1.Pod{fixture.Pod("holder").GPUs(8).Pool("p").Obj()},
			pod:    fixture.Pod("pod").GPUs(1).Pool("p").Obj(),
			want:   []string{"GPU"},
			help:   func(e *env) { e.finish("holder") },
			node:   "node",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(tc.nodes...)
			e.runOneByOne(tc.before...)
			e.createPods(tc.pod)
			message := e.waitUnschedulable(tc.pod.Name)
			for _, want := range tc.want {
				if !strings.Contains(message, want) {
					t.Errorf("the scheduler says %q, want it to name %q", message, want)
				}
			}

			began := time.Now()
			tc.help(e)
			if node := e.waitBound(tc.pod.Name); node != tc.node {
				t.Errorf("the pod went to %s, want %s", node, tc.node)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("the pod was bound %v after the event, want at most %v", took.Round(time.Millisecond), soon)
			}
		})
	}
}

// TestAllocatableCountsNotCapacity has a node lose GPUs that are free: what is left is what counts.
func TestAllocatableCountsNotCapacity(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("node").Pool("p").GPUs(8, "A100-80G").Obj())
	e.runOneByOne(fixture.Pod("first").GPUs(4).Pool("p").Obj())
	e.updateNode("node", func(node *corev1.Node) {
		node.Status.Allocatable[names.ResourceGPU] = resource.MustParse("6")
	})
	e.waitTooSmall(7)
	e.createPods(fixture.Pod("too-big").GPUs(4).Pool("p").Obj())
	t.Log(e.waitUnschedulable("too-big"))
	e.runOneByOne(fixture.Pod("fits").GPUs(2).Pool("p").Obj())
}

// waitTooSmall waits until the scheduler knows that no node has so many GPUs: it is told of nodes and of pods one by the other, in
// no order.
func (e *env) waitTooSmall(gpus int64) {
	e.Helper()
	for i := 0; ; i++ {
		probe := fmt.Sprint("probe-", i)
		e.createPods(fixture.Pod(probe).GPUs(gpus).Pool("p").Obj())
		verdict := e.waitUnschedulable(probe)
		e.deletePod(probe)
		if strings.Contains(verdict, string(reason.ReasonForCode(gpu.TooFewGPUs).Text)) {
			return
		}
	}
}

func TestCordonedNodeGetsNoPod(t *testing.T) {
	e := newEnv(t)
	e.createNodes(
		cordoned(fixture.Node("cordoned").Pool("p").GPUs(8, "A100-80G").Obj()),
		fixture.Node("open").Pool("p").GPUs(2, "A100-80G").Obj())
	for _, node := range e.runOneByOne(
		fixture.Pod("a").GPUs(1).Pool("p").Obj(), fixture.Pod("b").GPUs(1).Pool("p").Obj()) {
		if node != "open" {
			t.Errorf("a pod went to node %s", node)
		}
	}
	e.createPods(fixture.Pod("c").GPUs(1).Pool("p").Obj())
	t.Log(e.waitUnschedulable("c"))
}

// cordoned marks a node as kubectl and the node controller do together.
func cordoned(node *corev1.Node) *corev1.Node {
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	return node
}

package devices

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const smallSlice = names.ResourceMIGPrefix + "1g.10gb"

// slicePod asks for MIG slices.
func slicePod(uid string, count int) *st.PodWrapper {
	return st.MakePod().Name(uid).UID(uid).Container("image").Req(map[corev1.ResourceName]string{smallSlice: fmt.Sprint(count)})
}

// sliced has two cards in MIG mode of two slices each, MIG-0 to MIG-3, of which those of the cards named are broken.
func sliced(t testing.TB, broken ...int) *corev1.Node {
	t.Helper()
	var inventory gpu.Inventory
	for i := range 2 {
		card := gpu.SlicedGPU{GPU: gpu.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, MemoryMiB: 81920, Health: gpu.Healthy}}
		for j := range 2 {
			card.Slices = append(card.Slices, gpu.GPUSlice{UUID: fmt.Sprintf("MIG-%d", 2*i+j), Profile: "1g.10gb", MemoryMiB: 9728})
		}
		inventory.Sliced = append(inventory.Sliced, card)
	}
	for _, i := range broken {
		inventory.Sliced[i].Health = "Xid79"
	}
	text, err := inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n := st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{smallSlice: "4"}).Obj()
	n.Annotations = map[string]string{names.AnnotationInventory: text}
	return n
}

// reporting is a node whose agent tells which pod has a slice.
func reporting(t testing.TB, n *corev1.Node, slice, pod string) *corev1.Node {
	t.Helper()
	text, err := gpu.EncodeSlices([]gpu.Slice{{UUID: slice, Profile: "1g.10gb", ParentUUID: "GPU-0", Health: gpu.Healthy, Pod: types.UID(pod)}})
	if err != nil {
		t.Fatal(err)
	}
	n = n.DeepCopy()
	n.Annotations[names.AnnotationSlices] = text
	return n
}

// chosen returns which slices the ledger chose for a pod.
func chosen(l *Cache, pod string) []string {
	choice, _ := l.ChoiceOf(types.UID(pod))
	var uuids []string
	for _, held := range choice.Slices {
		for _, slice := range held {
			uuids = append(uuids, slice.UUID)
		}
	}
	return uuids
}

func TestWhichSliceAPodGets(t *testing.T) {
	tests := map[string]struct {
		node *corev1.Node
		// pods are there before, for which a ledger chose before or not.
		pods func(l *Cache, n *corev1.Node) []*corev1.Pod
		asks int
		want []string
		why  gpu.Code
	}{
		"the first": {asks: 1, want: []string{"MIG-0"}},
		"one beside a pod that was assumed": {
			pods: func(l *Cache, n *corev1.Node) []*corev1.Pod {
				return []*corev1.Pod{reserve(t, l, slicePod("a", 1), info(n))}
			},
			asks: 1, want: []string{"MIG-1"},
		},
		"one beside a pod whose annotation tells, after a restart": {
			pods: func(l *Cache, n *corev1.Node) []*corev1.Pod {
				p := bound(t, l, reserve(t, l, slicePod("a", 2), info(n)))
				l.ForgetPod("a")
				return []*corev1.Pod{p}
			},
			asks: 2, want: []string{"MIG-2", "MIG-3"},
		},
		"not one of a pod that is about to leave": {
			pods: func(l *Cache, n *corev1.Node) []*corev1.Pod {
				p := bound(t, l, reserve(t, l, slicePod("a", 4), info(n)))
				p.DeletionTimestamp = &p.CreationTimestamp
				return []*corev1.Pod{p}
			},
			asks: 1, why: gpu.TooFewFree,
		},
		"not the one that the agent takes for a pod of another scheduler": {
			pods: func(*Cache, *corev1.Node) []*corev1.Pod { return []*corev1.Pod{slicePod("a", 1).Node("n").Obj()} },
			asks: 1, want: []string{"MIG-1"},
		},
		"nor the one that it has taken": {
			node: reporting(t, sliced(t), "MIG-3", "a"),
			pods: func(*Cache, *corev1.Node) []*corev1.Pod { return []*corev1.Pod{slicePod("a", 1).Node("n").Obj()} },
			asks: 1, want: []string{"MIG-2"},
		},
		"beside a pod whose slices were made anew": {
			node: reporting(t, sliced(t), "MIG-2", "a"),
			pods: func(*Cache, *corev1.Node) []*corev1.Pod {
				return []*corev1.Pod{slicePod("a", 1).Node("n").Annotation(names.AnnotationGPUDevices,
					`{"version":1,"slices":{"`+slicePod("a", 1).Obj().Spec.Containers[1].Name+`":[{"uuid":"MIG-old","profile":"1g.10gb","card":"GPU-0","gpu":0}]}}`).Obj()}
			},
			asks: 1, want: []string{"MIG-3"},
		},
		"beside one that is expected": {
			pods: func(*Cache, *corev1.Node) []*corev1.Pod { return []*corev1.Pod{slicePod("a", 1).Obj()} },
			asks: 1, want: []string{"MIG-1"},
		},
		"as many as are left beside one that is expected": {
			pods: func(*Cache, *corev1.Node) []*corev1.Pod { return []*corev1.Pod{slicePod("a", 2).Obj()} },
			asks: 3, why: gpu.TooFewFree,
		},
		"none that is ill":         {node: sliced(t, 0), asks: 1, want: []string{"MIG-2"}},
		"too few that are not ill": {node: sliced(t, 0), asks: 3, why: gpu.TooFewHealthy},
		"what it has itself is its own": {pods: func(l *Cache, n *corev1.Node) []*corev1.Pod {
			return []*corev1.Pod{reserve(t, l, slicePod("p", 4), info(n))}
		}, asks: 4, want: []string{"MIG-0", "MIG-1", "MIG-2", "MIG-3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.node == nil {
				tc.node = sliced(t)
			}
			l := NewCache()
			var pods []*corev1.Pod
			if tc.pods != nil {
				pods = tc.pods(l, tc.node)
			}
			pod := slicePod("p", tc.asks).Obj()
			demand, err := gpu.DemandOf(pod)
			if err != nil {
				t.Fatal(err)
			}
			reason := l.Reserve(pod, &demand, info(tc.node, pods...))
			if reason.Code != tc.why {
				t.Fatalf("reason %s, want %v", reason.Detail(), tc.why)
			}
			if diff := cmp.Diff(tc.want, chosen(l, "p")); reason.IsZero() && diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestANodeThatNamesNoSlices, as one with an older agent, has none chosen.
func TestANodeThatNamesNoSlices(t *testing.T) {
	l, n := NewCache(), st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{smallSlice: "4"}).Obj()
	pod := slicePod("p", 1).Obj()
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	if reason := l.Reserve(pod, &demand, info(n)); !reason.IsZero() {
		t.Errorf("reason %s", reason.Detail())
	}
	if choice, ok := l.ChoiceOf("p"); ok {
		t.Errorf("chosen is %+v", choice)
	}
	if short := l.SliceShortage(&demand, info(n)); !short.IsZero() {
		t.Errorf("short %+v, want Kubernetes to count", short)
	}
}

// TestSlicesAreCountedWithoutPodsThatLeave, as in a dry run of preemption, and with what the agent has told since.
func TestSlicesAreCountedWithoutPodsThatLeave(t *testing.T) {
	l, n := NewCache(), sliced(t)
	a := bound(t, l, reserve(t, l, slicePod("a", 3), info(n)))
	other := slicePod("b", 1).Node("n").Obj()
	demand, err := gpu.DemandOf(slicePod("p", 2).Obj())
	if err != nil {
		t.Fatal(err)
	}
	node := info(n, a, other)
	if short := l.SliceShortage(&demand, node); short.Code != gpu.TooFewFree || short.Usable != 0 || short.Unknown != 1 {
		t.Errorf("short %+v, want all in use", short)
	}
	if err := node.RemovePod(klog.Background(), a); err != nil {
		t.Fatal(err)
	}
	if short := l.SliceShortage(&demand, node); !short.IsZero() {
		t.Errorf("short %+v though the pod has left", short)
	}
	node.SetNode(reporting(t, n, "MIG-3", "b"))
	if short := l.SliceShortage(&demand, node); !short.IsZero() {
		t.Errorf("short %+v", short)
	}
	if view := l.NodeView(node); !view.holders["b"].slices.IsKnown() {
		t.Error("what the agent told since is not known")
	}
}

// TestPodsWithSlicesAreExplained, and have what was chosen on the node alone.
func TestPodsWithSlicesAreExplained(t *testing.T) {
	l, n := NewCache(), sliced(t)
	reserve(t, l, slicePod("a", 1), info(n))
	devices, why := l.ChosenGPUs("a", "n")
	choice, err := gpu.ParseChoice(devices)
	if err != nil || len(choice.GPUs) != 0 || len(choice.Slices) != 1 {
		t.Errorf("chosen is %s, error %v", devices, err)
	}
	if want := "slices of GPUs that are in use already where there are such, and 1 GPUs in MIG mode stay idle"; why != want {
		t.Errorf("reason %q, want %q", why, want)
	}
}

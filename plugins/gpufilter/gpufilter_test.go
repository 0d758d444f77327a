package gpufilter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// newHandle returns a scheduling framework whose node informer holds the nodes.
func newHandle(t testing.TB, nodes ...*corev1.Node) fwk.Handle {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, node := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func newPlugin(t testing.TB, args runtime.Object, nodes ...*corev1.Node) *Plugin {
	t.Helper()
	plugin, err := newProfilePlugin(t.Context(), args, newHandle(t, nodes...), Dependencies{DeviceCache: devices.NewCache()}, &nodeIndices{})
	if err != nil {
		t.Fatalf("building the plugin: %v", err)
	}
	return plugin.(*Plugin)
}

func gpus(count string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{names.ResourceGPU: count}
}

// gpuNode has 8 GPUs of a type in a pool.
func gpuNode(name, pool, gpuType string) *corev1.Node {
	return st.MakeNode().Name(name).Label(names.LabelPool, pool).Label(names.LabelGPUType, gpuType).
		Capacity(gpus("8")).Obj()
}

func podOf(pool, count string) *st.PodWrapper {
	return st.MakePod().Name("pod").UID("pod").Label(names.LabelPool, pool).Req(gpus(count))
}

func info(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	nodeInfo := framework.NewNodeInfo(pods...)
	nodeInfo.SetNode(node)
	return nodeInfo
}

func infos(nodes []*corev1.Node) []fwk.NodeInfo {
	var list []fwk.NodeInfo
	for _, node := range nodes {
		list = append(list, info(node))
	}
	return list
}

// withCards adds an inventory of cards of these sizes in MiB, of which a negative one stands for a broken card.
func withCards(t testing.TB, node *corev1.Node, memoryMiB ...int64) *corev1.Node {
	t.Helper()
	var inventory gpu.Inventory
	for i, memory := range memoryMiB {
		card := gpu.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, MemoryMiB: max(memory, -memory), ReservedMiB: new(int64), Health: gpu.Healthy}
		if memory < 0 {
			card.Health = "Xid79"
		}
		inventory.GPUs = append(inventory.GPUs, card)
	}
	text, err := inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	node = node.DeepCopy()
	node.Annotations = map[string]string{names.AnnotationInventory: text}
	return node
}

// withAgent adds what a node's gpu-agent says of itself.
func withAgent(node *corev1.Node, status corev1.ConditionStatus, reason string) *corev1.Node {
	node = node.DeepCopy()
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: names.ConditionAgentReady, Status: status, Reason: reason})
	return node
}

func reject(code fwk.Code, reason string) *fwk.Status { return fwk.NewStatus(code, reason) }

var twoPools = []*corev1.Node{
	gpuNode("a1", "a", "A100-80G"), gpuNode("a2", "a", "A800-80G"), gpuNode("a3", "a", "T4"),
	gpuNode("b1", "b", "T4"), st.MakeNode().Name("cpu").Obj(),
}

func TestPreFilter(t *testing.T) {
	const most = "9223372036854775807"
	tests := map[string]struct {
		pod       *corev1.Pod
		served    []string
		nodes     []*corev1.Node // twoPools if nil
		want      *fwk.Status
		wantNodes []string // nil is all
	}{
		"a pod without GPU, pool and type is none of ours": {
			pod: st.MakePod().Obj(), want: fwk.NewStatus(fwk.Skip),
		},
		"the pool narrows the nodes":           {pod: podOf("b", "1").Obj(), wantNodes: []string{"b1"}},
		"a pool binds a pod without GPUs too":  {pod: st.MakePod().Label(names.LabelPool, "b").Obj(), wantNodes: []string{"b1"}},
		"no pool named means the default pool": {pod: st.MakePod().Req(gpus("1")).Obj(), wantNodes: []string{"cpu"}},
		"pool and type narrow further": {
			pod: podOf("a", "1").NodeSelector(map[string]string{names.LabelGPUType: "T4"}).Obj(), wantNodes: []string{"a3"},
		},
		"any of several accepted types": {
			pod:       podOf("a", "1").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj(),
			wantNodes: []string{"a1", "a2"},
		},
		"the types that the profile serves narrow a pod that takes any": {
			pod: podOf("a", "1").Obj(), served: []string{"T4"}, wantNodes: []string{"a3"},
		},
		"every node is a candidate, so no list is given": {
			pod: podOf("a", "1").Obj(), nodes: twoPools[:3],
		},
		"no node of the type, with the types that the pool has instead": {
			pod: podOf("b", "1").NodeSelector(map[string]string{names.LabelGPUType: "A100-80G"}).Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable,
				`no node of GPU pool "b" has GPU type "A100-80G" (types: T4)`),
		},
		"no node of several types": {
			pod: podOf("b", "1").Annotation(names.AnnotationGPUTypes, "H100,H200").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable,
				`no node of GPU pool "b" has GPU type "H100" or "H200" (types: T4)`),
		},
		"no such pool, with the pools that there are": {
			pod: podOf("c", "1").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable,
				`no node is in GPU pool "c" (pools: a, b, default)`),
		},
		"no such type anywhere": {
			pod:  st.MakePod().NodeSelector(map[string]string{names.LabelAccelerator: "H100"}).Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, `no node has GPU type "H100"`),
		},
		"a pool of nodes without types": {
			pod: st.MakePod().Req(gpus("1")).NodeSelector(map[string]string{names.LabelGPUType: "T4"}).Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable,
				`no node of GPU pool "default" has GPU type "T4" (there are no types)`),
		},
		"two containers whose GPUs overflow, which Kubernetes would sum to -2": {
			pod: podOf("a", most).Req(gpus(most)).Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable,
				"the sum of nvidia.com/gpu over all containers exceeds "+most),
		},
		"a malformed annotation": {
			pod: podOf("a", "1").Annotation(names.AnnotationGPUTypes, "A100-80G,,T4").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, `annotation g8s.host/gpu-types is "A100-80G,,T4", `+
				`want types separated by commas, such as "A100-80G,A800-80G"`),
		},
		"cards that the author named himself": {
			pod: podOf("a", "1").Annotation(names.AnnotationGPUDevices, "{}").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, "annotation g8s.host/gpu-devices is the scheduler's to write: "+
				"remove it from the pod, or from the template it is made of"),
		},
		"cards named on a pod without GPUs": {
			pod: st.MakePod().Annotation(names.AnnotationGPUDevices, "{}").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, "annotation g8s.host/gpu-devices is the scheduler's to write: "+
				"remove it from the pod, or from the template it is made of"),
		},
		"a malformed share": {
			pod:  podOf("a", "1").Annotation(names.AnnotationGPUShare, "2 apples").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, malformed(t, names.AnnotationGPUShare, "2 apples")),
		},
		"a malformed minimum of memory": {
			pod:  podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "-1").Obj(),
			want: reject(fwk.UnschedulableAndUnresolvable, malformed(t, names.AnnotationGPUMemoryMin, "-1")),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := tc.nodes
			if nodes == nil {
				nodes = twoPools
			}
			plugin := newPlugin(t, &configv1.GPUFilterArgs{GPUTypes: tc.served}, nodes...)
			result, status := plugin.PreFilter(t.Context(), framework.NewCycleState(), tc.pod, infos(nodes))
			if diff := cmp.Diff(tc.want, status, cmp.Comparer(sameStatus)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			var got []string
			if !result.AllNodes() {
				got = result.NodeNames.UnsortedList()
				slices.Sort(got)
			}
			if diff := cmp.Diff(tc.wantNodes, got); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

// malformed is what pkg/gpu says of an annotation, which names it.
func malformed(t *testing.T, annotation, value string) string {
	t.Helper()
	_, err := gpu.DemandOf(podOf("a", "1").Annotation(annotation, value).Obj())
	if err == nil || !strings.Contains(err.Error(), annotation) || !strings.Contains(err.Error(), value) {
		t.Fatalf("reading %s %q: %v, want an error that names both", annotation, value, err)
	}
	return err.Error()
}

func sameStatus(a, b *fwk.Status) bool { return a.Code() == b.Code() && a.Message() == b.Message() }

// on is a pod on a node with so many shares of 4 GiB, whose cards are not known.
func on(node string, shares int) *corev1.Pod {
	pod := st.MakePod().Name("other").UID("other").Node(node).Annotation(names.AnnotationGPUShare, "4Gi")
	for range shares {
		pod.Req(map[corev1.ResourceName]string{names.ResourceSharedGPU: "1"})
	}
	return pod.Obj()
}

func TestFilter(t *testing.T) {
	node := gpuNode("n", "a", "A100-80G")
	sharing := st.MakeNode().Name("n").Label(names.LabelPool, "a").Label(names.LabelCount, "4").Label(names.LabelMemory, "10Gi").
		Capacity(map[corev1.ResourceName]string{names.ResourceSharedGPU: "4"}).Obj()
	unhealthy := gpuNode("n", "a", "A100-80G")
	unhealthy.Status.Allocatable = st.MakeNode().Capacity(gpus("2")).Obj().Status.Allocatable
	shared := func(count string) *corev1.Pod {
		return st.MakePod().Label(names.LabelPool, "a").Annotation(names.AnnotationGPUShare, "4Gi").
			Req(map[corev1.ResourceName]string{names.ResourceSharedGPU: count}).Obj()
	}
	const most = "9223372036854775807"
	tests := map[string]struct {
		pod    *corev1.Pod
		served []string
		node   fwk.NodeInfo
		want   *fwk.Status
	}{
		"enough free GPUs": {pod: podOf("a", "4").Obj(), node: info(node, podOf("a", "4").Obj())},
		"GPUs of all containers count": {
			pod:  podOf("a", "4").Req(gpus("1")).Obj(),
			node: info(node, podOf("a", "4").Obj()),
			want: reject(fwk.Unschedulable, "node(s) have too few free GPUs"),
		},
		"an init container's peak counts": {
			pod:  podOf("a", "1").InitReq(gpus("8")).Obj(),
			node: info(node, podOf("a", "1").Obj()),
			want: reject(fwk.Unschedulable, "node(s) have too few free GPUs"),
		},
		"too few GPUs on the whole node, so eviction cannot help": {
			pod: podOf("a", "9").Obj(), node: info(node),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have fewer GPUs than the pod asks for"),
		},
		"allocatable counts, not capacity": {
			pod: podOf("a", "4").Obj(), node: info(unhealthy),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have fewer GPUs than the pod asks for"),
		},
		"another pool": {
			pod: podOf("b", "1").Obj(), node: info(node),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) are not in the pod's GPU pool"),
		},
		"another type": {
			pod: podOf("a", "1").Annotation(names.AnnotationGPUTypes, "T4").Obj(), node: info(node),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have another GPU type"),
		},
		"a type that the profile does not serve": {
			pod: podOf("a", "1").Obj(), served: []string{"T4"}, node: info(node),
			want: reject(fwk.UnschedulableAndUnresolvable,
				"node(s) have a GPU type that this scheduler profile does not serve"),
		},
		"a pod without GPUs may use any type's node": {
			pod: st.MakePod().Label(names.LabelPool, "a").Obj(), served: []string{"T4"}, node: info(node),
		},
		"its agent serves": {pod: podOf("a", "1").Obj(), node: info(withAgent(node, corev1.ConditionTrue, "Serving"))},
		"kubelet asks another device plugin than its agent": {
			pod: podOf("a", "1").Obj(), node: info(withAgent(node, corev1.ConditionFalse, names.ReasonOtherPlugin)),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have a gpu-agent that gives out no GPUs"),
		},
		"its agent has gone, and kubelet offers nothing": {
			pod:  podOf("a", "1").Obj(),
			node: info(withAgent(withCards(t, st.MakeNode().Name("n").Label(names.LabelPool, "a").Capacity(gpus("0")).Obj(), 1<<10), corev1.ConditionTrue, "Serving")),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have a gpu-agent that gives out no GPUs"),
		},
		"an agent that is not to run any more": {pod: podOf("a", "1").Obj(), node: info(withAgent(node, corev1.ConditionFalse, names.ReasonNoAgent))},
		"a pod without GPUs needs no agent": {
			pod: st.MakePod().Label(names.LabelPool, "a").Obj(), node: info(withAgent(node, corev1.ConditionFalse, names.ReasonPodRejected)),
		},
		"shared slots fit": {pod: shared("2"), node: info(sharing, shared("2"))},
		"shared slots are taken": {
			pod: shared("3"), node: info(sharing, shared("2")),
			want: reject(fwk.Unschedulable, "node(s) have too few free GPUs"),
		},
		"slots are no whole GPUs": {
			pod: podOf("a", "1").Obj(), node: info(sharing),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have fewer GPUs than the pod asks for"),
		},
		"a card of the size asked for": {
			pod: podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "40Gi").Obj(), node: info(withCards(t, node, 24576, 81920)),
		},
		"too few cards of the size, so eviction cannot help": {
			pod:  podOf("a", "2").Annotation(names.AnnotationGPUMemoryMin, "40Gi").Obj(),
			node: info(withCards(t, node, 24576, 81920), podOf("a", "1").Obj()),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have too few GPUs with enough memory"),
		},
		"sizes that nobody tells": {
			pod: podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "40Gi").Obj(), node: info(node),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) do not report the memory of their GPUs"),
		},
		"a broken card is not given, though allocatable has it": {
			pod: podOf("a", "2").Obj(), node: info(withCards(t, node, 81920, -81920)),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have too few healthy GPUs"),
		},
		"a card that the kubelet withdrew is not given, though the inventory has it": {
			pod: podOf("a", "3").Obj(), node: info(withCards(t, unhealthy, 81920, 81920, 81920)),
			want: reject(fwk.UnschedulableAndUnresolvable, "node(s) have fewer GPUs than the pod asks for"),
		},
		"whole pods without named cards are counted, to the last card": {
			pod: podOf("a", "1").Obj(), node: info(withCards(t, node, 81920, 81920), podOf("a", "1").Node("n").Obj()),
		},
		"a share finds no card with that much memory left": {
			pod: shared("4"), node: info(sharing, on("n", 3)),
			want: reject(fwk.Unschedulable, "node(s) have too little free memory on GPUs that can be shared"),
		},
		"a pod of MIG slices needs no card of ours": {
			pod:  st.MakePod().Label(names.LabelPool, "a").Req(map[corev1.ResourceName]string{names.ResourceMIGPrefix + "1g.10gb": "1"}).Obj(),
			node: info(st.MakeNode().Name("n").Label(names.LabelPool, "a").Obj()),
		},
		"pods of another scheduler overflow the node's sum, so it is full": {
			pod: podOf("a", "1").Obj(), node: info(node, podOf("a", most).Obj(), podOf("a", most).Obj()),
			want: reject(fwk.Unschedulable, "node(s) have too few free GPUs"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{GPUTypes: tc.served})
			d, err := demandOf(tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			cycle := framework.NewCycleState()
			cycle.Write(stateKey, &state{demand: d})
			got := plugin.Filter(t.Context(), cycle, tc.pod, tc.node)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(sameStatus)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilterReadsThePodWhenPreFilterDidNotRun is the classic configuration, which enables the plugin at filter alone.
func TestFilterReadsThePodWhenPreFilterDidNotRun(t *testing.T) {
	tests := map[string]struct {
		gpus string
		want fwk.Code
	}{
		"a pod that fits":           {"1", fwk.Success},
		"a pod that does not":       {"9", fwk.UnschedulableAndUnresolvable},
		"a pod that cannot be read": {"-1", fwk.UnschedulableAndUnresolvable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{})
			pod := podOf("a", tc.gpus).Obj()
			if got := plugin.Filter(t.Context(), framework.NewCycleState(), pod, info(twoPools[0])); got.Code() != tc.want {
				t.Errorf("status %v, want code %v", got, tc.want)
			}
		})
	}
}

func TestNewRefusesBadArguments(t *testing.T) {
	tests := map[string]struct {
		args runtime.Object
		want string
	}{
		"arguments that nobody registered": {&runtime.Unknown{}, "arguments of GPUFilter are *runtime.Unknown, want *GPUFilterArgs"},
		"an invalid type": {
			&configv1.GPUFilterArgs{GPUTypes: []string{"A 100"}},
			`pluginConfig[GPUFilter].args.gpuTypes[0]: Invalid value: "A 100"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newProfilePlugin(t.Context(), tc.args, newHandle(t), Dependencies{DeviceCache: devices.NewCache()}, &nodeIndices{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it returned %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestSignPod(t *testing.T) {
	plugin := newPlugin(t, &configv1.GPUFilterArgs{})
	sign := func(pod *corev1.Pod) string {
		fragments, status := plugin.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			return "refused"
		}
		return fmt.Sprintf("%+v", fragments)
	}
	one := sign(podOf("a", "1").Obj())
	if other := sign(podOf("a", "1").Name("other").UID("other").Obj()); other != one {
		t.Errorf("two pods that differ in name only have signatures %s and %s", one, other)
	}
	for name, pod := range map[string]*corev1.Pod{
		"count": podOf("a", "2").Obj(),
		"pool":  podOf("b", "1").Obj(),
		"types": podOf("a", "1").Annotation(names.AnnotationGPUTypes, "T4").Obj(),
		"size":  podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "1Gi").Obj(),
	} {
		if sign(pod) == one {
			t.Errorf("a pod of another %s has the same signature", name)
		}
	}
	if sign(podOf("a", "1").Req(gpus("3")).Obj()) == sign(podOf("a", "2").Req(gpus("2")).Obj()) {
		t.Error("pods that divide their GPUs differently have the same signature")
	}
	if got := sign(podOf("a", "-1").Obj()); got != "refused" {
		t.Errorf("a malformed pod got the signature %s", got)
	}
}

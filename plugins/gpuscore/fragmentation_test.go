package gpuscore

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
)

// sharedNode has two cards of 1000 MiB, to be had whole or shared.
func sharedNode(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(names.LabelGPUType, "T4").Label(names.LabelNVIDIAMemory, "1000").
		Capacity(map[corev1.ResourceName]string{"cpu": cpu, "memory": "64Gi", names.ResourceGPU: "2", names.ResourceSharedGPU: "2000"}).Obj()
}

func share(name, node string, milli int) *corev1.Pod {
	pod := st.MakePod().Name(name).UID(name).Node(node).Annotation(names.AnnotationGPUShare, strconv.Itoa(milli)+"Mi").
		Req(map[corev1.ResourceName]string{"cpu": "1", names.ResourceSharedGPU: "1"}).Obj()
	if node != "" {
		pod.Annotations[names.AnnotationGPUDevices] = fmt.Sprintf(
			`{"version":1,"containers":{%q:[{"uuid":"index-0","index":0,"memoryMiB":%d}]}}`, pod.Spec.Containers[0].Name, milli)
	}
	return pod
}

// scored returns the normalised scores of the nodes for a pod by LeastFragmentation, in a cluster of these nodes and
// pods, and the plugin.
func scored(t testing.TB, pod *corev1.Pod, nodes []*corev1.Node, pods ...*corev1.Pod) (map[string]int64, *Plugin) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, other := range append(pods, pod) {
		if err := factory.Core().V1().Pods().Informer().GetStore().Add(other); err != nil {
			t.Fatal(err)
		}
	}
	pods = slices.DeleteFunc(pods, func(other *corev1.Pod) bool { return other.Spec.NodeName == "" })
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(pods, nodes)))
	if err != nil {
		t.Fatal(err)
	}
	built, err := Factory(Dependencies{Devices: devices.NewCache()})(t.Context(),
		&configv1.GPUScoreArgs{Strategy: configv1.LeastFragmentation}, handle)
	if err != nil {
		t.Fatal(err)
	}
	plugin := built.(*Plugin)
	infos, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	cycle, list := newCycle(t, plugin, pod, infos...), fwk.NodeScoreList{}
	for _, info := range infos {
		value, status := plugin.Score(t.Context(), cycle, pod, info)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: value})
	}
	if status := plugin.ScoreExtensions().NormalizeScore(t.Context(), cycle, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	scores := map[string]int64{}
	for _, score := range list {
		scores[score.Name] = score.Score
	}
	return scores, plugin
}

func TestLeastFragmentationChooses(t *testing.T) {
	gpuPod := func() *st.PodWrapper {
		return st.MakePod().Name("new").UID("new").Req(map[corev1.ResourceName]string{"cpu": "1", names.ResourceGPU: "1"})
	}
	whole := gpuPod().Obj()
	insists := gpuPod().Name("insists").UID("insists").NodeSelector(map[string]string{names.LabelGPUType: "T4"}).Obj()
	other := sharedNode("a-other", "16")
	other.Labels[names.LabelGPUType] = "A10"
	cpuOnly := st.MakePod().Name("new").UID("new").Req(map[corev1.ResourceName]string{"cpu": "8"}).Obj()
	plain := st.MakeNode().Name("plain").Capacity(map[corev1.ResourceName]string{"cpu": "16", "memory": "64Gi"}).Obj()
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		"the rest of a card that the share fills":        {share("new", "", 460), []*corev1.Node{sharedNode("a", "16"), sharedNode("b", "16")}, []*corev1.Pod{share("x", "b", 540)}, "b"},
		"equals: a node in use, though another is first": {whole, []*corev1.Node{sharedNode("a", "16"), sharedNode("b", "16")}, []*corev1.Pod{gpuPod().Name("x").UID("x").Node("b").Obj()}, "b"},
		"equals in that: the first by name":              {whole, []*corev1.Node{sharedNode("b", "16"), sharedNode("a", "16")}, nil, "a"},
		"a type that nobody insists on":                  {whole, []*corev1.Node{sharedNode("b", "16"), other}, []*corev1.Pod{insists}, "a-other"},
		"CPU where no GPU needs it":                      {cpuOnly, []*corev1.Node{sharedNode("a", "8"), sharedNode("b", "64")}, []*corev1.Pod{insists}, "b"},
		"no GPU, so a node without":                      {cpuOnly, []*corev1.Node{sharedNode("a", "64"), plain}, nil, "plain"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			scores, _ := scored(t, tc.pod, tc.nodes, tc.pods...)
			for node, score := range scores {
				if (score == 100) != (node == tc.want) || score < 0 || score > 100 {
					t.Errorf("scores %v, want 100 for %s alone", scores, tc.want)
				}
			}
		})
	}
}

func TestNodesWithoutGPUsAreEqualToLeastFragmentation(t *testing.T) {
	cpuOnly := st.MakePod().Name("new").UID("new").Req(map[corev1.ResourceName]string{"cpu": "1"}).Obj()
	plain := func(name string) *corev1.Node {
		return st.MakeNode().Name(name).Capacity(map[corev1.ResourceName]string{"cpu": "16"}).Obj()
	}
	scores, _ := scored(t, cpuOnly, []*corev1.Node{plain("a"), plain("b"), sharedNode("gpu", "16")})
	if scores["a"] != 100 || scores["b"] != 100 || scores["gpu"] >= 100 {
		t.Errorf("scores %v, want 100 for both nodes without GPUs, so that other plugins decide between them", scores)
	}
}

func TestPodsThatFollowTheDemandAreNotPlacedInBatches(t *testing.T) {
	pod := share("new", "", 460)
	_, plugin := scored(t, pod, []*corev1.Node{sharedNode("a", "16")})
	if _, status := plugin.SignPod(t.Context(), pod); status.IsSuccess() {
		t.Error("the pod is signed, so that the next one like it would reuse its scores")
	}
	if _, status := plugin.SignPod(t.Context(), st.MakePod().Name("web").Obj()); !status.IsSuccess() {
		t.Errorf("a pod without GPUs: %v, want it signed, for it changes what its own node is worth alone", status)
	}
}

// TestPodsThatNeverFitChangeNoScore lets pods wait that ask for what no node has, some so much that sums would wrap.
func TestPodsThatNeverFitChangeNoScore(t *testing.T) {
	nodes := []*corev1.Node{sharedNode("a", "16"), sharedNode("b", "4"), sharedNode("c", "16")}
	there := []*corev1.Pod{share("x", "b", 540), share("y", "", 230)}
	want, _ := scored(t, share("new", "", 460), nodes, slices.Clone(there)...)
	for _, gpus := range []string{"3", "1000000000000000", "2305843009213693952", "9223372036854775807"} {
		huge := st.MakePod().Name("huge").UID("huge").Req(map[corev1.ResourceName]string{"cpu": "1", names.ResourceGPU: gpus}).Obj()
		got, _ := scored(t, share("new", "", 460), nodes, append(slices.Clone(there), huge)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("while a pod waits for %s GPUs, scores (-want +got):\n%s", gpus, diff)
		}
	}
}

// BenchmarkLeastFragmentation is one node's score: the dry run of the allocator, and what that wastes.
func BenchmarkLeastFragmentation(b *testing.B) {
	pod := share("new", "", 460)
	node := sharedNode("a", "16")
	_, plugin := scored(b, pod, []*corev1.Node{node}, share("x", "a", 540))
	at := info(node, share("x", "a", 540))
	cycle := newCycle(b, plugin, pod, at)
	b.ReportAllocs()
	for b.Loop() {
		plugin.Score(b.Context(), cycle, pod, at)
	}
}

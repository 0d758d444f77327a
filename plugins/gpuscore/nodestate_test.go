package gpuscore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestNodesThatAreWorthOtherValuesAreInOtherStates changes what a value may depend on, one thing at a time.
func TestNodesThatAreWorthOtherValuesAreInOtherStates(t *testing.T) {
	plugin := &Plugin{Dependencies: Dependencies{Devices: devices.NewCache()}}
	read := func(name string, change func(*corev1.Node), pods ...*corev1.Pod) nodeState {
		node := fixture.Node(name).Pool("a").GPUs(8, "T4").Obj()
		if change != nil {
			change(node)
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(node)
		return plugin.stateOfNode(info)
	}
	onCards := func(cpu string, cards string) *corev1.Pod {
		return st.MakePod().Name("p").UID("p").Node("n").Req(map[corev1.ResourceName]string{"cpu": cpu, names.ResourceGPU: cards}).Obj()
	}
	base := read("n", nil)
	if other := read("m", func(n *corev1.Node) { n.Labels["owner"] = "me" }); other != base {
		t.Errorf("nodes that differ in name and in a label of their owner's are in two states:\n%+v\n%+v", base, other)
	}
	label := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[key] = value }
	}
	for name, other := range map[string]nodeState{
		"the pool":             read("n", label(names.LabelPool, "b")),
		"the type":             read("n", label(names.LabelGPUType, "A10")),
		"an alias of the type": read("n", label(names.LabelAccelerator, "A10")),
		"the type of a cloud":  read("n", label("cloud.google.com/gke-accelerator", "A10")),
		"one of four types": read("n", func(n *corev1.Node) {
			for _, key := range names.GPUTypeLabels[1:] {
				n.Labels[key] = "A10"
			}
		}),
		"the interconnect":    read("n", label(names.LabelInterconnect, names.InterconnectNVLink)),
		"the memory of cards": read("n", label(names.LabelMemory, "16Gi")),
		"cards in use":        read("n", nil, onCards("0", "1")),
		"CPU in use":          read("n", nil, onCards("1", "0")),
		"the size of the host": read("n", func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1025Gi")
		}),
		"GPUs that the kubelet offers": read("n", func(n *corev1.Node) {
			n.Annotations = map[string]string{names.AnnotationInventory: fixture.Cards("n", 1, 1, 1, 1, 1, 1, 1, 1).Annotation(t)}
			n.Status.Allocatable[names.ResourceGPU] = resource.MustParse("7")
		}),
		"MIG slices": read("n", func(n *corev1.Node) {
			n.Status.Allocatable[names.ResourceMIGPrefix+"1g.5gb"] = resource.MustParse("7")
		}),
	} {
		if other == base {
			t.Errorf("nodes that differ in %s are in one state", name)
		}
	}
}

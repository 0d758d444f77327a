package gpufilter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

const smallSlice = names.ResourceMIGPrefix + "1g.10gb"

// slicePod asks for MIG slices.
func slicePod(name, count string) *st.PodWrapper {
	return st.MakePod().Name(name).UID(name).Req(map[corev1.ResourceName]string{smallSlice: count})
}

// slicedNode is a1 with two cards in MIG mode of two slices each, of which some are broken.
func slicedNode(t *testing.T, broken ...int) *corev1.Node {
	t.Helper()
	return fixture.Node("a1").Slices("1g.10gb", 4).
		Annotate(names.AnnotationInventory, fixture.Cards("a1", 81920, 81920).Unhealthy(broken...).Sliced("1g.10gb", 2, 0, 1).Annotation(t)).Obj()
}

// TestFilterBySlices: what kubelet counts can be more than may be given out.
func TestFilterBySlices(t *testing.T) {
	counted := fixture.Node("a1").Slices("1g.10gb", 4).Obj()
	const insufficient = "Insufficient nvidia.com/mig-1g.10gb"
	tests := map[string]struct {
		pod  *corev1.Pod
		node fwk.NodeInfo
		want *fwk.Status
	}{
		"all slices":             {pod: slicePod("p", "4").Obj(), node: info(slicedNode(t))},
		"more than the node has": {pod: slicePod("p", "5").Obj(), node: info(slicedNode(t)), want: reject(fwk.UnschedulableAndUnresolvable, insufficient)},
		"of a card that is broken, which nobody mends": {pod: slicePod("p", "3").Obj(), node: info(slicedNode(t, 0)), want: reject(fwk.UnschedulableAndUnresolvable, insufficient)},
		"in use, so that eviction helps": {
			pod: slicePod("p", "2").Obj(), node: info(slicedNode(t), slicePod("other", "3").Node("a1").Obj()), want: reject(fwk.Unschedulable, insufficient),
		},
		"on a node that names none, Kubernetes counts": {pod: slicePod("p", "5").Obj(), node: info(counted)},
		"a pod without slices":                         {pod: st.MakePod().Obj(), node: info(slicedNode(t, 0, 1))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{}, slicedNode(t))
			got := plugin.Filter(t.Context(), framework.NewCycleState(), tc.pod, tc.node)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(sameStatus)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodsThatWaitForSlices are woken by what GPUFilter rejected them for.
func TestPodsThatWaitForSlices(t *testing.T) {
	waiting := slicePod("p", "2").Obj()
	gone := func(pod *st.PodWrapper) *corev1.Pod { return pod.Node("a1").Obj() }
	uncut := fixture.Node("a1").Slices("1g.10gb", 4).
		Annotate(names.AnnotationInventory, fixture.Cards("a1", 81920, 81920).Sliced("1g.10gb", 0, 0, 1).Annotation(t)).Obj()
	other := fixture.Node("a1").Slices("1g.10gb", 4).
		Annotate(names.AnnotationInventory, fixture.Cards("a1", 81920, 81920).Sliced("3g.40gb", 2, 0, 1).Annotation(t)).Obj()
	relabelled := slicedNode(t)
	relabelled.Labels["unrelated"] = "x"
	tests := map[string]struct {
		hint          func(*Plugin, klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error)
		before, after any
		want          fwk.QueueingHint
	}{
		"slices come free":                          {hint: (*Plugin).afterPodChange, before: gone(slicePod("o", "1")), want: fwk.Queue},
		"a pod without slices frees none":           {hint: (*Plugin).afterPodChange, before: gone(st.MakePod().Name("o").UID("o"))},
		"a card in MIG mode becomes well":           {hint: (*Plugin).afterNodeChange, before: slicedNode(t, 1), after: slicedNode(t), want: fwk.Queue},
		"the last card becomes well that is needed": {hint: (*Plugin).afterNodeChange, before: slicedNode(t, 0, 1), after: slicedNode(t, 1), want: fwk.Queue},
		"a card breaks":                             {hint: (*Plugin).afterNodeChange, before: slicedNode(t), after: slicedNode(t, 1)},
		"cards are cut":                             {hint: (*Plugin).afterNodeChange, before: uncut, after: slicedNode(t), want: fwk.Queue},
		"cards are cut otherwise":                   {hint: (*Plugin).afterNodeChange, before: slicedNode(t), after: other},
		"a label":                                   {hint: (*Plugin).afterNodeChange, before: slicedNode(t), after: relabelled},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{}, slicedNode(t))
			got, err := tc.hint(plugin, klog.Background(), waiting, tc.before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

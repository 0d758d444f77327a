package gpuquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/test/fixture"
)

// handle has informers that do not run, and notes whom it is told to try.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
	tried   []string
}

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (*handle) KubeConfig() *rest.Config                                 { return &rest.Config{} }
func (h *handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		h.tried = append(h.tried, name)
	}
}

// newPlugin bounds namespaces a and b together to 8 GPUs, and c to none.
func newPlugin(t *testing.T) (*Plugin, *handle) {
	t.Helper()
	h := &handle{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	quota := func(most int64, namespaces ...string) *names.GPUQuota {
		return &names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: namespaces[0]}, Spec: names.GPUQuotaSpec{Namespaces: namespaces, Pool: names.DefaultPool, Max: ptr.To(most)}}
	}
	if err := follow.SeedInformer(h.factory, quota(8, "a", "b"), quota(0, "c")); err != nil {
		t.Fatal(err)
	}
	plugin, err := Factory(Dependencies{Quotas: follow.New(nil)})(t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), h
}

func podIn(namespace string, change ...func(*fixture.PodBuilder)) *corev1.Pod {
	b := fixture.Pod("p-" + namespace).GPUs(4)
	for _, change := range change {
		change(b)
	}
	pod := b.Obj()
	pod.Namespace, pod.UID = namespace, types.UID(pod.Name)
	return pod
}

func on(node string, pod *corev1.Pod) *corev1.Pod { pod.Spec.NodeName = node; return pod }

func nominated(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Status.NominatedNodeName = node
	return pod
}

func TestWhatWakesAPod(t *testing.T) {
	more := func(b *fixture.PodBuilder) { b.GPUs(2) }
	elsewhere := func(b *fixture.PodBuilder) { b.Pool("other") }
	none := func(b *fixture.PodBuilder) { b.GPUs(0) }
	tests := map[string]struct {
		before, after *corev1.Pod
		waits         string // the namespace of the pod that waits
		want          fwk.QueueingHint
	}{
		"one of its namespace leaves":                   {before: on("n", podIn("a")), waits: "a", want: fwk.Queue},
		"one that shares its quota leaves":              {before: on("n", podIn("b")), waits: "a", want: fwk.Queue},
		"one of another quota leaves":                   {before: on("n", podIn("c")), waits: "a", want: fwk.QueueSkip},
		"one of another pool leaves":                    {before: on("n", podIn("a", elsewhere)), waits: "a", want: fwk.QueueSkip},
		"one without GPUs leaves":                       {before: on("n", podIn("a", none)), waits: "a", want: fwk.QueueSkip},
		"one leaves that was nowhere":                   {before: podIn("a"), waits: "a", want: fwk.QueueSkip},
		"one is gone that a node was kept for":          {before: nominated("n", podIn("d")), waits: "a", want: fwk.Queue},
		"one goes elsewhere":                            {before: nominated("n", podIn("d")), after: podIn("d"), waits: "a", want: fwk.Queue},
		"one is bound":                                  {after: on("n", podIn("d")), waits: "a", want: fwk.Queue},
		"one is bound, and it may have no more":         {after: on("n", podIn("d")), waits: "c", want: fwk.QueueSkip},
		"one of another pool is bound":                  {after: on("n", podIn("d", elsewhere)), waits: "a", want: fwk.QueueSkip},
		"one that waits changes in something else":      {before: podIn("d"), after: podIn("d"), waits: "a", want: fwk.QueueSkip},
		"it asks for less":                              {before: podIn("c"), after: podIn("c", more), waits: "c", want: fwk.Queue},
		"it changes in something that quotas count not": {before: podIn("c"), after: podIn("c"), waits: "c", want: fwk.QueueSkip},
		"nothing": {waits: "a", want: fwk.QueueSkip},
	}
	p, _ := newPlugin(t)
	object := func(pod *corev1.Pod) any {
		if pod == nil {
			return nil
		}
		return pod
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			waits := podIn(tc.waits)
			if tc.before == nil || tc.after == nil || tc.after.Namespace != tc.waits {
				waits.UID = "waits"
			}
			got, err := p.afterPodChange(klog.Background(), waits, object(tc.before), object(tc.after))
			if err != nil || got != tc.want {
				t.Errorf("the hint is %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestANodeWakesAPod(t *testing.T) {
	node := func(pool, gpuType string) *corev1.Node { return fixture.Node("n").Pool(pool).GPUs(8, gpuType).Obj() }
	tests := map[string]struct {
		before, after *corev1.Node
		want          fwk.QueueingHint
	}{
		"a new one":                  {after: node("default", "T4"), want: fwk.Queue},
		"a new one of another pool":  {after: node("other", "T4"), want: fwk.QueueSkip},
		"one of another type now":    {before: node("default", "L4"), after: node("default", "T4"), want: fwk.Queue},
		"one that joins the pool":    {before: node("other", "T4"), after: node("default", "T4"), want: fwk.Queue},
		"one that is as it was":      {before: node("default", "T4"), after: node("default", "T4"), want: fwk.QueueSkip},
		"one that leaves the pool":   {before: node("default", "T4"), after: node("other", "T4"), want: fwk.Queue},
		"one that was never of ours": {before: node("other", "L4"), after: node("other", "T4"), want: fwk.QueueSkip},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var before any
			if tc.before != nil {
				before = tc.before
			}
			got, err := afterNodeChange(klog.Background(), podIn("a"), before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("the hint is %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// TestWhoWaitsIsTriedWhenQuotasChange: pods with GPUs that have no node, and are not held back.
func TestWhoWaitsIsTriedWhenQuotasChange(t *testing.T) {
	p, h := newPlugin(t)
	gated := podIn("d")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	for _, pod := range []*corev1.Pod{podIn("a"), on("n", podIn("b")), podIn("c", func(b *fixture.PodBuilder) { b.GPUs(0) }), gated} {
		if err := h.factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	p.activateWaiting()
	if len(h.tried) != 1 || h.tried[0] != "a/p-a" {
		t.Errorf("%v are tried, want a/p-a", h.tried)
	}
}

// TestWhatCountsByTheNodeWakesByTheNode: what a pod holds counts in the quotas of the pool of its node. So a pod that a quota keeps waiting is
// woken when such a pod leaves, also one that names another pool, as one of another scheduler or on a node that was relabelled, and when the node goes to another pool.
// Else it waits for the flush of every five minutes, which docs/scheduling.md says nothing waits for.
func TestWhatCountsByTheNodeWakesByTheNode(t *testing.T) {
	plugin, h := newPlugin(t)
	nodes, pods := h.factory.Core().V1().Nodes().Informer().GetIndexer(), h.factory.Core().V1().Pods().Informer().GetIndexer()
	node := fixture.Node("n").GPUs(8, "T4").Obj() // of the pool default
	foreign := on("n", podIn("b", func(b *fixture.PodBuilder) { b.GPUs(8).Pool("elsewhere") }))
	waits := podIn("a")
	for _, err := range []error{nodes.Add(node), pods.Add(foreign), pods.Add(waits)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, status := plugin.PreFilter(t.Context(), nil, waits, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Fatalf("it does not wait for its quota: %v", status)
	}
	if got, err := plugin.afterPodChange(klog.Background(), waits, foreign, nil); err != nil || got != fwk.Queue {
		t.Errorf("a pod leaves that counts in its quota: %v, %v, want it woken", got, err)
	}
	moved := node.DeepCopy()
	moved.Labels[names.LabelPool] = "other"
	if got, err := afterNodeChange(klog.Background(), waits, node, moved); err != nil || got != fwk.Queue {
		t.Errorf("the node of a pod that counts in its quota goes to another pool: %v, %v, want it woken", got, err)
	}
	if err := nodes.Update(moved); err != nil {
		t.Fatal(err)
	}
	if plugin.quotas.RequestFor(waits).BlockingExcess() != nil {
		t.Error("its quota has no room even so")
	}
}

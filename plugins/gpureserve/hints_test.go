package gpureserve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestAfterNodeChange(t *testing.T) {
	in := func(pool string, change func(*corev1.Node)) *corev1.Node {
		node := sharedNode("n", "16")
		node.Labels[names.LabelPool] = pool
		if change != nil {
			change(node)
		}
		return node
	}
	tests := map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"a new node of the pool":       {after: in("a", nil), want: fwk.Queue},
		"a new node of another pool":   {after: in("b", nil)},
		"a node joins the pool":        {before: in("b", nil), after: in("a", nil), want: fwk.Queue},
		"a node leaves the pool":       {before: in("a", nil), after: in("b", nil)},
		"a node leaves the cluster":    {before: in("a", nil)},
		"a node is opened again":       {before: in("a", func(n *corev1.Node) { n.Spec.Unschedulable = true }), after: in("a", nil), want: fwk.Queue},
		"its taint is gone":            {before: in("a", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }), after: in("a", nil), want: fwk.Queue},
		"its device plugin comes back": {before: in("a", func(n *corev1.Node) { n.Status.Allocatable = nil }), after: in("a", nil), want: fwk.Queue},
		"its cards are reported": {before: in("a", nil), want: fwk.Queue,
			after: in("a", func(n *corev1.Node) { n.Annotations = map[string]string{names.AnnotationInventory: "{}"} })},
		"a heartbeat": {before: in("a", nil), after: in("a", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{}} })},
	}
	waiting := st.MakePod().Label(names.LabelPool, "a").Req(map[corev1.ResourceName]string{names.ResourceGPU: "1"}).Obj()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := afterNodeChange(klog.Background(), waiting, tc.before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestAfterPodChange(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pool := range []string{"a", "b"} {
		if err := nodes.Add(st.MakeNode().Name("of-"+pool).Label(names.LabelPool, pool).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	p := &Plugin{nodes: listersv1.NewNodeLister(nodes)}
	pod := func(name, pool, gpus string) *st.PodWrapper {
		return st.MakePod().Name(name).UID(name).Label(names.LabelPool, pool).Req(map[corev1.ResourceName]string{names.ResourceGPU: gpus})
	}
	tests := map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"a pod leaves a node of the pool":          {before: pod("x", "a", "1").Node("n").Obj(), want: fwk.Queue},
		"a pod that waited is gone":                {before: pod("x", "a", "8").Obj(), want: fwk.Queue},
		"a pod leaves another pool":                {before: pod("x", "b", "1").Node("n").Obj()},
		"one of another pool leaves a node of it":  {before: pod("x", "b", "1").Node("of-a").Obj(), want: fwk.Queue},
		"one of the pool leaves a node of another": {before: pod("x", "a", "1").Node("of-b").Obj()},
		"a pod without GPUs leaves":                {before: st.MakePod().Name("x").Label(names.LabelPool, "a").Node("n").Obj()},
		"another pod comes":                        {after: pod("x", "a", "1").Obj()},
		"the pod asks for something else":          {before: pod("p", "a", "1").Obj(), after: pod("p", "a", "8").Obj(), want: fwk.Queue},
		"the pod moves to another pool":            {before: pod("p", "b", "1").Obj(), after: pod("p", "a", "1").Obj(), want: fwk.Queue},
		"the pod gets another strategy":            {before: pod("p", "a", "1").Obj(), after: pod("p", "a", "1").Label(names.LabelJobType, "notebook").Obj(), want: fwk.Queue},
		"another pod asks for something else":      {before: pod("x", "a", "1").Obj(), after: pod("x", "a", "8").Obj()},
		"the pod changes in what is not weighed":   {before: pod("p", "a", "1").Obj(), after: pod("p", "a", "1").Label("x", "y").Obj()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := p.afterPodChange(klog.Background(), pod("p", "a", "1").Obj(), tc.before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

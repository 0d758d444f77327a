package gpufilter

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

// TestWhoIsKeptOffANodeIsNotWokenByIt: a pod that affinity or a taint keeps from a node is not tried when another one leaves it, nor when
// its cards change; it is when the node opens to it. Else 400 pods of one user that want a label which no node has are all tried each
// time that anybody's pod ends.
func TestWhoIsKeptOffANodeIsNotWokenByIt(t *testing.T) {
	racks := make([]string, 100)
	for i := range racks {
		racks[i] = fmt.Sprint("r", i)
	}
	wants := podOf("a", "2").NodeAffinityIn("rack", racks, st.NodeSelectorTypeMatchExpressions).Obj()
	kinds := map[string]struct {
		pod   *corev1.Pod
		opens func(*corev1.Node)
	}{
		"affinity": {wants, func(node *corev1.Node) { node.Labels["rack"] = "r7" }},
		"selector": {podOf("a", "2").NodeSelector(map[string]string{"rack": "r7"}).Obj(), func(node *corev1.Node) { node.Labels["rack"] = "r7" }},
		"taint":    {podOf("a", "2").Obj(), func(node *corev1.Node) { node.Spec.Taints = nil }},
		"cordon":   {podOf("a", "2").Obj(), func(node *corev1.Node) { node.Spec.Unschedulable = false }},
	}
	for name, tc := range kinds {
		t.Run(name, func(t *testing.T) {
			closed := gpuNode("n", "a", "A100-80G")
			switch name {
			case "taint":
				closed.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			case "cordon":
				closed.Spec.Unschedulable = true
			}
			open := closed.DeepCopy()
			open.Labels = maps.Clone(closed.Labels)
			tc.opens(open)
			plugin := newPlugin(t, &configv1.GPUFilterArgs{})
			indexer := plugin.nodes.store
			left := podOf("a", "2").Node("n").Obj()
			left.UID = "left"
			for _, step := range []struct {
				what          string
				node          *corev1.Node
				before, after any
				want          fwk.QueueingHint
			}{
				{"a pod leaves it", closed, left, nil, fwk.QueueSkip},
				{"it comes", closed, nil, closed, fwk.QueueSkip},
				{"a card turns healthy", closed, withCards(t, closed, -81920, 81920), withCards(t, closed, 81920, 81920), fwk.QueueSkip},
				{"it opens", open, closed, open, fwk.Queue},
				{"a pod leaves it, open", open, left, nil, fwk.Queue},
			} {
				if err := indexer.Add(step.node); err != nil {
					t.Fatal(err)
				}
				how := plugin.afterPodChange
				_, old := step.before.(*corev1.Node)
				if _, now := step.after.(*corev1.Node); old || now {
					how = plugin.afterNodeChange
				}
				if got, err := how(klog.Background(), tc.pod, step.before, step.after); err != nil || got != step.want {
					t.Errorf("%s: hint %v, %v, want %v", step.what, got, err, step.want)
				}
			}
		})
	}
}

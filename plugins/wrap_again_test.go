package plugins_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/upstream"
)

// verdict is a plugin that says the same of every pod at PreFilter, as the plugin of gangs does of members for whom
// there is no room.
type verdict struct{ status *fwk.Status }

func (verdict) Name() string { return "Verdict" }

func (v verdict) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, v.status
}

func (verdict) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// TestAPodIsTriedAgainWhereTheListMayBeToBlame has a node that is worth most, and so many others that they are not on
// the list.
func TestAPodIsTriedAgainWhereTheListMayBeToBlame(t *testing.T) {
	only := func(node string) *st.PodWrapper {
		p := pod("p", "1", "1")
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: st.MakeNodeSelector().In("metadata.name", []string{node}, st.NodeSelectorTypeMatchFields).Obj(),
		}}
		return p
	}
	tests := map[string]struct {
		verdict *fwk.Status
		pod     *st.PodWrapper
		// nodes are how many there are, 20 if it is 0, and taken is on how many of them, the best ones among them, another pod
		// has the port of this one.
		nodes, taken int
		attempts     int
		placed       bool
	}{
		"the best node takes it":                       {pod: pod("p", "1", "1"), attempts: 1, placed: true},
		"the best node has no CPU":                     {pod: pod("p", "8", "1"), attempts: 1, placed: true},
		"the best node is not among those of the user": {pod: only("n07"), attempts: 1, placed: true},
		"no node has the CPU":                          {pod: pod("p", "65", "1"), attempts: 1},
		"the port is taken on the best node":           {pod: pod("p", "1", "1").HostPort(80), taken: 1, attempts: 1, placed: true},
		"the port is taken on all nodes but the last":  {pod: pod("p", "1", "1").HostPort(80), taken: 19, attempts: 1, placed: true},
		"the port is taken everywhere":                 {pod: pod("p", "1", "1").HostPort(80), taken: 20, attempts: 1},
		"too many are asked about before the last one": {
			pod: pod("p", "1", "1").HostPort(80), nodes: 300, taken: 299, attempts: 1, placed: true,
		},
		"other plugins decide between equals, and reject all that are listed": {
			pod:   pod("p", "1", "1").Label(names.LabelJobType, configv1.JobTypeNotebook).HostPort(80),
			taken: 19, attempts: 2, placed: true,
		},
		"a plugin turns it away, and eviction may help": {
			pod: pod("p", "1", "1"), verdict: fwk.NewStatus(fwk.Unschedulable, "no room"), attempts: 1,
		},
		"a plugin turns it away for good": {
			pod: pod("p", "1", "1"), verdict: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no room"), attempts: 1,
		},
		"a plugin turns it away without a word": {
			pod: pod("p", "1", "1"), verdict: fwk.NewStatus(fwk.Unschedulable), attempts: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClusterWith(t, fwkruntime.Registry{"Verdict": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return verdict{tc.verdict}, nil
			}}, manyNodes(cmp.Or(tc.nodes, 20))...)
			attempts := 0
			upstream.CountChoices(c.scheduler, &attempts)
			plugins.Wrap(c.scheduler, plugins.Options{})
			c.put(pod("x", "60", "4"), "n00")
			for i := range tc.taken {
				c.put(pod(fmt.Sprint("port", i), "1", "1").HostPort(80), fmt.Sprintf("n%02d", i))
			}
			if node, err := c.try(tc.pod.Obj()); (err == nil) != tc.placed || attempts != tc.attempts {
				t.Errorf("%d attempts placed it on %q, %v; want %d attempts, placed: %v", attempts, node, err, tc.attempts, tc.placed)
			}
		})
	}
}

func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = gpuNode(fmt.Sprintf("n%02d", i), "pcie")
	}
	return nodes
}

package plugins_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestPreemptionOfKubernetesKeepsTheMinRuntime, and takes another where there is one.
func TestPreemptionOfKubernetesKeepsTheMinRuntime(t *testing.T) {
	type runs struct {
		node, asks string
		minutes    int
	}
	tests := map[string]struct {
		runs     []runs
		priority int32
		want     string
	}{
		"nobody asks for anything":     {runs: []runs{{node: "a"}}, want: "a"},
		"it has run long enough":       {runs: []runs{{"a", "10m", 11}}, want: "a"},
		"it has not":                   {runs: []runs{{"a", "10m", 9}}, want: ""},
		"another node":                 {runs: []runs{{"a", "10m", 9}, {"b", "", 99}}, want: "b"},
		"a service of the cluster":     {runs: []runs{{"a", "10m", 9}}, priority: 2_000_000_000, want: "a"},
		"what it says cannot be read":  {runs: []runs{{"a", "-10m", 9}}, want: "a"},
		"more than anybody is allowed": {runs: []runs{{"a", "9999h", 25 * 60}}, want: "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, r := range tc.runs {
				nodes = append(nodes, gpuNode(r.node, "pcie"))
			}
			c := newCluster(t, nodes...)
			plugins.Wrap(c.scheduler, plugins.Options{})
			pool := &names.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: names.DefaultPool}, Spec: names.GPUPoolSpec{Defaults: names.PoolDefaults{MaxMinRuntime: "24h"}}}
			if err := coscheduling.RegisterGroups(c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory(), nil, pool); err != nil {
				t.Fatal(err)
			}
			for _, r := range tc.runs {
				victim := pod("on-"+r.node, "1", "8").Priority(-1).StartTime(metav1.NewTime(time.Now().Add(-time.Duration(r.minutes) * time.Minute)))
				if r.asks != "" {
					victim.Annotation(names.AnnotationMinRuntime, r.asks)
				}
				c.put(victim, r.node)
			}
			if got := c.preempt(pod("p", "1", "8").Priority(max(tc.priority, 1)).Obj()); got != tc.want {
				t.Errorf("it is nominated for %q, want %q", got, tc.want)
			}
		})
	}
}

// preempt returns the node that a pod is nominated for which fits nowhere, "" for none.
func (c *cluster) preempt(pod *corev1.Pod) string {
	c.t.Helper()
	state, profile := framework.NewCycleState(), c.scheduler.Profiles[names.SchedulerName]
	if err := profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
		c.t.Fatal(err)
	}
	_, err := upstream.Choose(c.t.Context(), c.scheduler, names.SchedulerName, state, pod)
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		c.t.Fatalf("scheduling ends with %v, want that it fits nowhere", err)
	}
	result, _ := profile.RunPostFilterPlugins(c.t.Context(), state, pod, unfit.Diagnosis.NodeToStatus)
	if result == nil || result.NominatingInfo == nil {
		return ""
	}
	return result.NominatedNodeName
}

package gang

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestOneJobLeavesForAGangThatLacksOneNode: kube-scheduler's own preemption evicted one for each member. The gang runs then,
// and no other of its members has evicted anybody.
func TestOneJobLeavesForAGangThatLacksOneNode(t *testing.T) {
	e := newEnv(t)
	before := map[types.UID]string{}
	for _, job := range []string{"low-a", "low-b", "low-c"} {
		e.Submit(clustertest.Job{Name: job, Priority: "low", Pool: rackedPool, GPUs: 8})
		before[e.Running(job, 1)[0].UID] = job
	}
	e.Submit(clustertest.Job{Name: "never", Priority: "high", Pool: rackedPool, Nodes: 7, GPUs: 8}) // it is larger than the pool, and evicts nobody
	e.Submit(clustertest.Job{Name: "urgent", Priority: "high", Pool: rackedPool, Nodes: 4, GPUs: 8})
	e.Running("urgent", 4)
	var stayed []string
	for _, job := range []string{"low-a", "low-b", "low-c"} {
		stayed = append(stayed, slices.DeleteFunc([]string{job}, func(string) bool {
			return !slices.ContainsFunc(e.members(job), func(p corev1.Pod) bool { return before[p.UID] == job })
		})...)
	}
	if len(stayed) != 2 {
		t.Errorf("of three jobs %v still run, want two", stayed)
	}
	for _, pod := range e.members("never") {
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" {
			t.Errorf("%s is on %q, nominated for %q", pod.Name, pod.Spec.NodeName, pod.Status.NominatedNodeName)
		}
	}
}

package why

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTheLastIdleNodeIsKept has pods come and go in a pool of which one node is idle, so that it is kept for pods that
// take all of it. A job that asks for less waits, is told why, and starts when a second node is idle.
func TestTheLastIdleNodeIsKept(t *testing.T) {
	e := newEnv(t)
	e.keepWhole(100)
	var nodes []*corev1.Node
	for i := range 12 {
		nodes = append(nodes, e.node(fmt.Sprintf("n%02d", i)).GPUs(8, a100).Obj())
	}
	e.createNodes(nodes...)
	for _, node := range nodes[1:] {
		taken := fixture.Pod("on-" + node.Name).GPUs(8).Pool(e.pool).Obj()
		taken.Spec.NodeName = node.Name
		e.createPod(taken)
	}
	e.comeAndGo(40)
	e.waits(e.pod(2).Obj())
	e.want(reason.KeptWhole, "the last idle nodes of the pool", "use priority high", "keepWholePerMille")
	e.remove("on-" + nodes[5].Name)
	if node := e.bound().Spec.NodeName; node != nodes[0].Name && node != nodes[5].Name {
		t.Errorf("the job runs on %s, want it on one of the two idle nodes", node)
	}
}

// keepWhole changes how many nodes in a thousand are kept, for as long as the test runs.
func (e *env) keepWhole(perMille int) {
	e.Helper()
	before, err := os.ReadFile(cluster.PolicyPath())
	if err != nil {
		e.Fatal(err)
	}
	write := func(content string) {
		next := cluster.PolicyPath() + ".next"
		if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
			e.Error(err)
		}
		if err := os.Rename(next, cluster.PolicyPath()); err != nil {
			e.Error(err)
		}
	}
	write(fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nkeepWholePerMille: %d\n", perMille))
	e.Cleanup(func() { write(string(before)) })
}

// comeAndGo has pods come and leave, and as many come again. They ask for more than any node has, so that the scheduler
// tries each and they make no difference but to how many pods leave for each that comes.
func (e *env) comeAndGo(pods int) {
	e.Helper()
	const passing = "passing"
	ofThem := metav1.ListOptions{LabelSelector: names.LabelJob + "=" + passing}
	for round := range 2 {
		for i := range pods {
			e.createPod(fixture.Pod(fmt.Sprintf("passing-%d-%d", round, i)).GPUs(16).Pool(e.pool).Label(names.LabelJob, passing).Obj())
		}
		e.eventually("the scheduler to try all pods", func(ctx context.Context) bool {
			list, err := client.CoreV1().Pods(e.namespace).List(ctx, ofThem)
			tried := 0
			for i := 0; err == nil && i < len(list.Items); i++ {
				if len(list.Items[i].Status.Conditions) > 0 {
					tried++
				}
			}
			return tried == pods
		})
		if round == 0 {
			now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
			if err := client.CoreV1().Pods(e.namespace).DeleteCollection(e.Context(), now, ofThem); err != nil {
				e.Fatal(err)
			}
		}
	}
}

func (e *env) createPod(pod *corev1.Pod) {
	e.Helper()
	if _, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// remove deletes a pod.
func (e *env) remove(pod string) {
	e.Helper()
	err := client.CoreV1().Pods(e.namespace).Delete(e.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil {
		e.Fatal(err)
	}
}

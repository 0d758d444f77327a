package sandbox

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestANodeWithoutItsKubelet stops the kubelet of a node: Kubernetes marks the node, nobody confirms the end of a pod that
// is deleted, and when the kubelet is back all goes on.
func TestANodeWithoutItsKubelet(t *testing.T) {
	fleet := oneNode()
	fleet.Groups[0].Count = 2 // were all nodes gone, Kubernetes would think that it is itself cut off
	s, err := Start(t.Context(), Options{ControllerManager: true, Kwok: true, Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndCheck(t, s) })
	client := clientOf(t, s)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runs"},
		Spec: corev1.PodSpec{
			NodeName: "node-01", Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForPhase(t, s, "runs", corev1.PodRunning)

	if err := StopKubelet(t.Context(), client, "node-01", true); err != nil {
		t.Fatal(err)
	}
	poll(t, "the node to be tainted as unreachable", func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, "node-01", metav1.GetOptions{})
		return err == nil && hasTaint(node, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	})
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "runs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if pod, err = client.CoreV1().Pods("default").Get(t.Context(), "runs", metav1.GetOptions{}); err != nil || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod of a dead kubelet is %s, error %v; want that nobody tells of its end", pod.Status.Phase, err)
	}

	if err := StartKubelet(t.Context(), client, "node-01"); err != nil {
		t.Fatal(err)
	}
	poll(t, "the pod to go", func(ctx context.Context) bool {
		_, err := client.CoreV1().Pods("default").Get(ctx, "runs", metav1.GetOptions{})
		return err != nil
	})
	poll(t, "the node to take pods again", func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, "node-01", metav1.GetOptions{})
		return err == nil && isUsable(node) && len(node.Spec.Taints) == 0
	})
}

func TestOnlySimulatedNodesAreStopped(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndCheck(t, s) })
	client := clientOf(t, s)
	if err := StopKubelet(t.Context(), client, "nobody", false); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a node that is not there: error %v", err)
	}
	real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), real, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := StopKubelet(t.Context(), client, "real", false); err == nil || !strings.Contains(err.Error(), "not a simulated node") {
		t.Errorf("a node that is not simulated: error %v", err)
	}
}

func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key && taint.Effect == effect {
			return true
		}
	}
	return false
}

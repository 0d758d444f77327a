package disruption

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// env is one test's namespace and pool.
type env struct{ *clustertest.Env }

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{cluster.NewEnvWithPool(t)}
}

// shown is what `gpuctl get jobs` shows of a job.
func (e *env) shown(name string) inventory.Job {
	e.Helper()
	found, err := inventory.NewReader(cluster.Client).Job(e.Context(), e.Namespace, name)
	if err != nil {
		e.Fatal(err)
	}
	return found
}

// shows waits until `gpuctl get jobs` shows a job with a status and a reason.
func (e *env) shows(name string, status inventory.Status, reason string) {
	e.Helper()
	var last inventory.Trouble
	e.Eventually(fmt.Sprintf("%s to be shown as %s (%s)", name, status, reason), func(context.Context) (bool, error) {
		shown := e.shown(name)
		if shown.Trouble != last {
			last = shown.Trouble
			e.Logf("%s is shown as %s (%s): %s", name, shown.Status, shown.Reason, shown.Message)
		}
		return shown.Status == status && shown.Reason == reason, nil
	})
}

// disrupted checks that a pod's end is marked as a disruption, by whom.
func (e *env) disrupted(pod *corev1.Pod, reason string) {
	e.Helper()
	if got := clustertest.DisruptedBy(pod); got != reason {
		e.Errorf("pod %s was disrupted by %q, want %q", pod.Name, got, reason)
	}
}

// remove deletes a pod, nil being with the grace that it asks for.
func (e *env) remove(pod *corev1.Pod, grace *int64) {
	e.Helper()
	if err := cluster.Client.CoreV1().Pods(e.Namespace).Delete(e.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		e.Fatal(err)
	}
}

// cancel deletes a job with its pods.
func (e *env) cancel(name string) {
	e.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := cluster.Client.BatchV1().Jobs(e.Namespace).Delete(e.Context(), name, background); err != nil {
		e.Fatal(err)
	}
}

func (e *env) cordon(node string, closed bool) {
	e.Helper()
	verb := "uncordon"
	if closed {
		verb = "cordon"
	}
	e.Kubectl(verb, node)
	e.Eventually(node+" to be tainted as it should be", func(ctx context.Context) (bool, error) {
		read, err := cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && closed == tainted(read, corev1.TaintNodeUnschedulable), err
	})
}

func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/bounds"
)

// patience is how long a test waits for what should come at once on an idle machine.
const patience = bounds.Patience

// env is one test's part of the cluster.
type env struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	namespace, err = client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, client: client, namespace: namespace.Name}
	t.Cleanup(e.cleanUp)
	return e
}

// cleanUp deletes the pods and all nodes, so that the next test finds none of them.
func (e *env) cleanUp() {
	ctx := context.Background()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := e.client.CoreV1().Pods(e.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
	if err := e.client.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
}

// createNodes registers nodes as a kubelet does.
func (e *env) createNodes(nodes ...*corev1.Node) {
	e.Helper()
	for _, node := range nodes {
		if _, err := e.client.CoreV1().Nodes().Create(e.Context(), node, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
	}
}

func (e *env) createPods(pods ...*corev1.Pod) {
	e.Helper()
	for _, pod := range pods {
		if _, err := e.client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
	}
}

// runOneByOne creates each pod when the one before it is bound, and returns the nodes they went to.
func (e *env) runOneByOne(pods ...*corev1.Pod) []string {
	e.Helper()
	var nodes []string
	for _, pod := range pods {
		e.createPods(pod)
		nodes = append(nodes, e.waitBound(pod.Name))
	}
	return nodes
}

// waitBound waits until a pod is on a node, and returns the node's name.
func (e *env) waitBound(name string) string {
	e.Helper()
	pod := e.waitPod(name, "to be bound", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	return pod.Spec.NodeName
}

// waitUnschedulable waits until the scheduler has said why a pod cannot run, and returns its words.
func (e *env) waitUnschedulable(name string) string {
	e.Helper()
	pod := e.waitPod(name, "to be found unschedulable", func(pod *corev1.Pod) bool { return verdictOn(pod) != "" })
	return verdictOn(pod)
}

// verdictOn is what the scheduler says of a pod it could not place, "" when it said nothing yet.
func verdictOn(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return condition.Message
		}
	}
	return ""
}

func (e *env) waitPod(name, what string, done func(*corev1.Pod) bool) *corev1.Pod {
	e.Helper()
	var last *corev1.Pod
	err := wait.PollUntilContextTimeout(e.Context(), 20*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			var err error
			last, err = e.client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && done(last), err
		})
	if err != nil {
		e.Fatalf("waiting for pod %s %s: %v; it is on node %q, the scheduler says %q",
			name, what, err, last.Spec.NodeName, verdictOn(last))
	}
	return last
}

// waitAllBound waits until count pods are on nodes, and returns the pods.
func (e *env) waitAllBound(count int) []corev1.Pod {
	e.Helper()
	var bound []corev1.Pod
	err := wait.PollUntilContextTimeout(e.Context(), 100*time.Millisecond, 2*patience, true,
		func(ctx context.Context) (bool, error) {
			list, err := e.client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String(),
			})
			if err != nil {
				return false, err
			}
			bound = list.Items
			return len(bound) >= count, nil
		})
	if err != nil {
		e.Fatalf("waiting for %d pods to be bound, of which %d are: %v", count, len(bound), err)
	}
	return bound
}

// updateNode changes a node, its status included.
func (e *env) updateNode(name string, change func(*corev1.Node)) {
	e.Helper()
	node, err := e.client.CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	status := node.DeepCopy()
	change(status)
	node, err = e.client.CoreV1().Nodes().Update(e.Context(), status, metav1.UpdateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	change(node)
	if _, err := e.client.CoreV1().Nodes().UpdateStatus(e.Context(), node, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// finish ends a pod, as a kubelet reports it.
func (e *env) finish(name string) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, corev1.PodSucceeded)
	if _, err := e.client.CoreV1().Pods(e.namespace).Patch(e.Context(), name,
		"application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		e.Fatal(err)
	}
}

// deletePod takes a pod away at once.
func (e *env) deletePod(name string) {
	e.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := e.client.CoreV1().Pods(e.namespace).Delete(e.Context(), name, now); err != nil {
		e.Fatal(err)
	}
}

// waitEvent waits for an event on an object. Those on nodes are in the namespace default.
func (e *env) waitEvent(on corev1.ObjectReference, reason, message string) {
	e.Helper()
	var seen []string
	err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := e.client.CoreV1().Events(on.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.Set{"involvedObject.kind": on.Kind, "involvedObject.name": on.Name}.String(),
		})
		if err != nil {
			return false, err
		}
		seen = nil
		for _, event := range list.Items {
			if event.Reason == reason && strings.Contains(event.Message, message) {
				return true, nil
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return false, nil
	})
	if err != nil {
		e.Errorf("no event %s with %q on %s: %v; there are\n%s", reason, message, on.Name, err, strings.Join(seen, "\n"))
	}
}

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/condition"
)

// LabelKubelet, on a simulated node, defines whether its kubelet runs; [KubeletStopped] is its only value. kwok ignores such nodes and their pods. It
// is a label because kwok does not notice the removal of an annotation.
const (
	LabelKubelet   = "sandbox.g8s.host/kubelet"
	KubeletStopped = "stopped"
)

// StopKubelet stops the kubelet of a simulated node, as when the machine loses its power or its network: the node's lease is not renewed, and the
// state and the end of its pods are not reported. The control plane notices after its grace period of 50 seconds, or at once if noticed is true.
func StopKubelet(ctx context.Context, client kubernetes.Interface, node string, noticed bool) error {
	if err := setKubelet(ctx, client, node, ptr.To(KubeletStopped)); err != nil {
		return fmt.Errorf("stopping the kubelet of node %s: %w", node, err)
	}
	if !noticed {
		return nil
	}
	if err := errors.Join(
		setConditions(ctx, client, node, unknownConditions(time.Now())),
		markPods(ctx, client, node, corev1.ConditionTrue, corev1.ConditionFalse),
	); err != nil {
		return fmt.Errorf("stopping the kubelet of node %s: %w", node, err)
	}
	return nil
}

// markPods marks the pods of a node as ready, or as not ready, without a reason, like the node lifecycle controller when it notices that a node is
// lost.
func markPods(ctx context.Context, client kubernetes.Interface, node string, from, to corev1.ConditionStatus) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return fmt.Errorf("listing its pods: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: corev1.PodReady, Status: to, LastTransitionTime: metav1.Now()},
	}}})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !runsMarked(pod, from) {
			continue
		}
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// runsMarked reports whether a pod runs and is marked ready, or not ready, without a reason. With a reason the pod itself caused it.
func runsMarked(pod *corev1.Pod, status corev1.ConditionStatus) bool {
	ready := condition.OfPod(pod, corev1.PodReady)
	return pod.Status.Phase == corev1.PodRunning && ready != nil && ready.Status == status && ready.Reason == ""
}

// StartKubelet starts the kubelet of a simulated node again: the node is ready, and pods that were deleted meanwhile end.
func StartKubelet(ctx context.Context, client kubernetes.Interface, node string) error {
	if err := setKubelet(ctx, client, node, nil); err != nil {
		return fmt.Errorf("starting the kubelet of node %s: %w", node, err)
	}
	if err := errors.Join(
		setConditions(ctx, client, node, nodeConditions(time.Now())),
		markPods(ctx, client, node, corev1.ConditionFalse, corev1.ConditionTrue),
	); err != nil {
		return fmt.Errorf("starting the kubelet of node %s: %w", node, err)
	}
	return nil
}

// setKubelet writes the label, or removes it when state is nil.
func setKubelet(ctx context.Context, client kubernetes.Interface, name string, state *string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if node.Annotations[annotationSimulated] != annotationSimulatedValue {
		return fmt.Errorf("it is not a simulated node: it has no annotation %s=%s", annotationSimulated, annotationSimulatedValue)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{LabelKubelet: state}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

func setConditions(ctx context.Context, client kubernetes.Interface, name string, conditions []corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// unknownConditions are those that the node lifecycle controller writes for a node with an expired lease.
func unknownConditions(now time.Time) []corev1.NodeCondition {
	conditions := nodeConditions(now)
	for i := range conditions {
		conditions[i].Status, conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		conditions[i].Message = "Kubelet stopped posting node status."
	}
	return conditions
}

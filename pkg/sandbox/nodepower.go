package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// LabelKubelet, on a simulated node, says whether its kubelet runs; [KubeletStopped] is its only value. kwok leaves such
// nodes and their pods alone. It is a label because kwok does not see an annotation go.
const (
	LabelKubelet   = "sandbox.g8s.host/kubelet"
	KubeletStopped = "stopped"
)

// StopKubelet ends the kubelet of a simulated node, as when the machine loses its power or its network: nothing renews the
// node's lease, and nothing tells how its pods are or confirms that they have ended. The control plane notices after its
// grace period of 50 seconds, or at once if noticed says so.
func StopKubelet(ctx context.Context, client kubernetes.Interface, node string, noticed bool) error {
	if err := setKubelet(ctx, client, node, ptr.To(KubeletStopped)); err != nil {
		return fmt.Errorf("stopping the kubelet of node %s: %w", node, err)
	}
	if !noticed {
		return nil
	}
	if err := setConditions(ctx, client, node, unknownConditions(time.Now())); err != nil {
		return fmt.Errorf("stopping the kubelet of node %s: %w", node, err)
	}
	return nil
}

// StartKubelet starts the kubelet of a simulated node again: the node is ready, and pods that were deleted meanwhile end.
func StartKubelet(ctx context.Context, client kubernetes.Interface, node string) error {
	if err := setKubelet(ctx, client, node, nil); err != nil {
		return fmt.Errorf("starting the kubelet of node %s: %w", node, err)
	}
	if err := setConditions(ctx, client, node, nodeConditions(time.Now())); err != nil {
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

// unknownConditions are those that the node lifecycle controller writes for a node whose lease has run out.
func unknownConditions(now time.Time) []corev1.NodeCondition {
	conditions := nodeConditions(now)
	for i := range conditions {
		conditions[i].Status, conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		conditions[i].Message = "Kubelet stopped posting node status."
	}
	return conditions
}

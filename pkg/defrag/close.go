package defrag

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/conflict"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// closeNode keeps pods off a node. A nomination alone is not enough: a scheduling attempt of the waiting pod removes it while too little is free, and
// the evicted pod would return.
func (c *Carrier) closeNode(ctx context.Context, name string) error {
	until := c.Now().Add(2 * c.StepTimeout).Unix()
	taint := corev1.Taint{Key: names.TaintMoving, Value: strconv.FormatInt(until, 10), Effect: corev1.TaintEffectNoSchedule}
	err := c.changeTaints(ctx, name, func(taints []corev1.Taint) []corev1.Taint {
		return append(slices.DeleteFunc(taints, isMoving), taint)
	})
	if err != nil {
		return phrase.Errorf("closing node %s: %w", name, err)
	}
	return nil
}

// openNode allows pods on a node again.
func (c *Carrier) openNode(ctx context.Context, name string) error {
	err := c.changeTaints(ctx, name, func(taints []corev1.Taint) []corev1.Taint { return slices.DeleteFunc(taints, isMoving) })
	if err != nil && !apierrors.IsNotFound(err) {
		return phrase.Errorf("opening node %s again, which kubectl taint node %s %s- does: %w", name, name, names.TaintMoving, err)
	}
	return nil
}

// OpenNodes opens nodes that an interrupted defragmentation left closed.
func (c *Carrier) OpenNodes(ctx context.Context) error {
	read, err := snapshot.Read(ctx, c.Client, snapshot.Nodes(snapshot.Scope{}))
	if err != nil {
		return err
	}
	now := c.Now().Unix()
	for i := range read.Nodes {
		node := &read.Nodes[i]
		at := slices.IndexFunc(node.Spec.Taints, isMoving)
		if at < 0 {
			continue
		}
		if until, err := strconv.ParseInt(node.Spec.Taints[at].Value, 10, 64); err == nil && until >= now {
			continue // another defragmentation is in progress
		}
		if err := c.openNode(ctx, node.Name); err != nil {
			return err
		}
		c.Report(phrase.Textf("%s opened again, which was closed for moves that never ended", node.Name))
	}
	return nil
}

func isMoving(taint corev1.Taint) bool { return taint.Key == names.TaintMoving }

func (c *Carrier) changeTaints(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	return conflict.Retry(retry.DefaultBackoff, func() error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		_, err = c.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

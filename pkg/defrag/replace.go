package defrag

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// checkRoom checks that a node still has room for the moving pod: minutes may have passed since the plan.
func (c *Carrier) checkRoom(ctx context.Context, pod *corev1.Pod, node string) error {
	object, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return phrase.Errorf("%w: node %s is gone", ErrOutdated, node)
	}
	if err != nil {
		return phrase.Errorf("reading node %s: %w", node, err)
	}
	on, err := snapshot.Read(ctx, c.Client, snapshot.Pods(snapshot.Scope{Fields: snapshot.PodsOn(node)}))
	if err != nil {
		return err
	}
	there := make([]*corev1.Pod, len(on.Pods))
	for i := range on.Pods {
		there[i] = &on.Pods[i]
	}
	request, err := fit.RequestOf(pod)
	if err != nil {
		return phrase.Errorf("reading what the pod asks: %w", err)
	}
	if obstacles, _ := request.Obstacles(fit.NewNode(object, there, nil)); len(obstacles) > 0 {
		return phrase.Errorf("%w: node %s has no room for the pod any more", ErrOutdated, node)
	}
	return nil
}

// evictPod evicts a pod if it may still be moved: its author may have forbidden it since the plan.
func (c *Carrier) evictPod(ctx context.Context, pod *corev1.Pod) error {
	if hold := eviction.HoldOf(pod, eviction.Defragmentation); hold != "" {
		return phrase.Errorf("%w: the pod is not to be moved any more (%s)", ErrOutdated, hold)
	}
	outcome, err := eviction.Evict(ctx, eviction.TypedClient{Client: c.Client.PolicyV1()}, pod)
	switch outcome {
	case eviction.Evicted:
		return nil
	case eviction.Gone:
		return phrase.Errorf("%w: the pod has ended", ErrOutdated)
	case eviction.OverBudget:
		return phrase.Errorf("its disruption budget allows none at the moment: %w", err)
	case eviction.Busy, eviction.Refused:
	}
	return phrase.Errorf("evicting the pod: %w", err)
}

// placement counts a controller's pods on each node, without the moving one.
type placement map[string]int

// countSiblings counts the bound pods of a controller that are not terminating.
func (c *Carrier) countSiblings(ctx context.Context, move Move, owner types.UID) (placement, error) {
	read, err := snapshot.Read(ctx, c.Client, snapshot.Pods(snapshot.Scope{Namespace: move.Namespace, Fields: snapshot.PlacedPods}))
	if err != nil {
		return nil, err
	}
	out := placement{}
	for i := range read.Pods {
		pod := &read.Pods[i]
		of := metav1.GetControllerOf(pod)
		if of != nil && of.UID == owner && pod.UID != move.UID && pod.DeletionTimestamp == nil {
			out[pod.Spec.NodeName]++
		}
	}
	return out, nil
}

// newOn returns the node, except one, that has more pods than before; the expected one, if it is among several.
func (p placement) newOn(before placement, but, expected string) string {
	found := ""
	for node, count := range p {
		if count > before[node] && node != but && (found == "" || node == expected || node < found && found != expected) {
			found = node
		}
	}
	return found
}

// errCameBack ends the move of a pod that tolerates closed nodes.
var errCameBack = phrase.Errorf("its new pod has come back to the node, as it tolerates all taints")

func (c *Carrier) waitForReplaced(ctx context.Context, move Move, owner *metav1.OwnerReference, before placement) (to string, err error) {
	awaited := phrase.Textf("%s %s has no pod on another node yet", owner.Kind, owner.Name)
	err = c.pollUntil(ctx, awaited, func(ctx context.Context) (bool, error) {
		pod, err := c.Client.CoreV1().Pods(move.Namespace).Get(ctx, move.Pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) && (err != nil || pod.UID == move.UID && !gpu.HasEnded(pod)) {
			return false, err
		}
		now, err := c.countSiblings(ctx, move, owner.UID)
		if err != nil {
			return false, err
		}
		if to = now.newOn(before, move.From, move.To); to != "" {
			return true, nil
		}
		if now[move.From] > before[move.From] {
			return false, errCameBack
		}
		return false, nil
	})
	if err != nil {
		return "", phrase.Errorf("waiting for %s %s to have its pod on another node: %w", owner.Kind, owner.Name, err)
	}
	c.Report(phrase.Textf("%s %s has its pod on %s", owner.Kind, owner.Name, to))
	return to, nil
}

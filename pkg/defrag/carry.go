package defrag

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const pollInterval = 250 * time.Millisecond

// Carrier makes the moves of proposals, one at a time.
type Carrier struct {
	Client kubernetes.Interface
	// Patience is how long one step may take: a pod that ends and starts anew, or the one that waits being placed.
	Patience time.Duration
	// Report is told of each step.
	Report func(text string)
}

// CarryOut makes the moves of a proposal. Before each it nominates the waiting pod for its node, so that the scheduler
// keeps what becomes free there for it, and gives the pod that moves a place elsewhere. It ends with the first step
// that fails: what has been moved stays moved, and a new plan counts on it.
func (c *Carrier) CarryOut(ctx context.Context, proposal Proposal) error {
	for i, move := range proposal.Moves {
		if err := c.nominate(ctx, proposal); err != nil {
			return err
		}
		if err := c.move(ctx, move); err != nil {
			return fmt.Errorf("making move %d of %d, %s/%s away from node %s: %w", i+1, len(proposal.Moves), move.Namespace, move.Pod, move.From, err)
		}
	}
	return c.awaitPlaced(ctx, proposal)
}

func (c *Carrier) nominate(ctx context.Context, p Proposal) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":%q}}`, p.UID, p.Node)
	_, err := c.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("keeping node %s for pod %s/%s: %w", p.Node, p.Namespace, p.Pod, err)
	}
	return nil
}

// move evicts a pod, and waits until it is gone and its controller has as many pods on nodes as before.
func (c *Carrier) move(ctx context.Context, move Move) error {
	pods := c.Client.CoreV1().Pods(move.Namespace)
	pod, err := pods.Get(ctx, move.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && (pod.UID != move.UID || pod.Spec.NodeName != move.From)):
		return errors.New("the pod has ended since the plan was made: make a new one")
	case err != nil:
		return fmt.Errorf("reading the pod: %w", err)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return errors.New("nothing would start the pod anew")
	}
	before, err := c.placedOf(ctx, move.Namespace, owner.UID)
	if err != nil {
		return err
	}
	err = c.Client.PolicyV1().Evictions(move.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: move.Namespace, Name: move.Pod},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(move.UID))},
	})
	if apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("its disruption budget allows none at the moment: %w", err)
	}
	if err != nil {
		return fmt.Errorf("evicting the pod: %w", err)
	}
	c.Report(fmt.Sprintf("%s/%s evicted from %s", move.Namespace, move.Pod, move.From))
	return c.awaitReplaced(ctx, move, owner, before)
}

// placedOf counts the pods of a controller that are on nodes and not about to end.
func (c *Carrier) placedOf(ctx context.Context, namespace string, owner types.UID) (int, error) {
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String(),
	})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of the controller: %w", err)
	}
	placed := 0
	for i := range list.Items {
		pod := &list.Items[i]
		of := metav1.GetControllerOf(pod)
		if of != nil && of.UID == owner && pod.DeletionTimestamp == nil && !ended(pod) {
			placed++
		}
	}
	return placed, nil
}

func (c *Carrier) awaitReplaced(ctx context.Context, move Move, owner *metav1.OwnerReference, before int) error {
	err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		pod, err := c.Client.CoreV1().Pods(move.Namespace).Get(ctx, move.Pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) && (err != nil || pod.UID == move.UID && !ended(pod)) {
			return false, err
		}
		placed, err := c.placedOf(ctx, move.Namespace, owner.UID)
		return placed >= before, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s %s to have its pod on another node: %w", owner.Kind, owner.Name, err)
	}
	c.Report(fmt.Sprintf("%s %s has its pod on another node", owner.Kind, owner.Name))
	return nil
}

// ended reports whether a pod holds its place no more.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (c *Carrier) awaitPlaced(ctx context.Context, p Proposal) error {
	var node string
	err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		pod, err := c.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Pod, metav1.GetOptions{})
		if err == nil {
			node = pod.Spec.NodeName
		}
		return node != "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for pod %s/%s to be placed: %w", p.Namespace, p.Pod, err)
	}
	c.Report(fmt.Sprintf("%s/%s is on %s", p.Namespace, p.Pod, node))
	return nil
}

func (c *Carrier) poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, c.Patience, true, done)
}

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

// CarryOut makes the moves of a proposal. Before and during each it nominates the waiting pod for its node, so that the
// scheduler keeps what becomes free there for it, and gives the pod that moves a place elsewhere: an attempt that finds
// too little free takes the nomination back, so once is not enough. It ends with the first step
// that fails: what has been moved stays moved, and a new plan counts on it.
func (c *Carrier) CarryOut(ctx context.Context, proposal Proposal) error {
	for i, move := range proposal.Moves {
		if err := c.nominate(ctx, proposal); err != nil {
			return err
		}
		if err := c.move(ctx, proposal, move); err != nil {
			return fmt.Errorf("making move %d of %d, %s/%s away from node %s: %w", i+1, len(proposal.Moves), move.Namespace, move.Pod, move.From, err)
		}
	}
	return c.awaitPlaced(ctx, proposal)
}

// nominate keeps the node for the waiting pod, as long as that waits.
func (c *Carrier) nominate(ctx context.Context, p Proposal) error {
	pod, err := c.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading pod %s/%s: %w", p.Namespace, p.Pod, err)
	}
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == p.Node {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":%q}}`, p.UID, p.Node)
	_, err = c.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("keeping node %s for pod %s/%s: %w", p.Node, p.Namespace, p.Pod, err)
	}
	return nil
}

// move evicts a pod, and waits until it is gone and its controller has as many pods on other nodes as before.
func (c *Carrier) move(ctx context.Context, proposal Proposal, move Move) error {
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
	before, err := c.siblings(ctx, move, owner.UID)
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
	return c.awaitReplaced(ctx, proposal, move, owner, before)
}

// placement is where the pods of a controller are, but for the one that moves.
type placement struct {
	here  int // on the node that it leaves
	there int // on other nodes
}

// siblings counts the pods of a controller that are on nodes and not about to end.
func (c *Carrier) siblings(ctx context.Context, move Move, owner types.UID) (out placement, err error) {
	list, err := c.Client.CoreV1().Pods(move.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String(),
	})
	if err != nil {
		return out, fmt.Errorf("listing the pods of the controller: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		of := metav1.GetControllerOf(pod)
		switch {
		case of == nil || of.UID != owner || pod.UID == move.UID || pod.DeletionTimestamp != nil || ended(pod):
		case pod.Spec.NodeName == move.From:
			out.here++
		default:
			out.there++
		}
	}
	return out, nil
}

var errCameBack = errors.New("its new pod has come back to the node")

func (c *Carrier) awaitReplaced(
	ctx context.Context, proposal Proposal, move Move, owner *metav1.OwnerReference, before placement,
) error {
	err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		pod, err := c.Client.CoreV1().Pods(move.Namespace).Get(ctx, move.Pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) && (err != nil || pod.UID == move.UID && !ended(pod)) {
			return false, err
		}
		now, err := c.siblings(ctx, move, owner.UID)
		switch {
		case err != nil:
			return false, err
		case now.here > before.here:
			return false, errCameBack
		case now.there > before.there:
			return true, nil
		}
		return false, c.nominate(ctx, proposal)
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

package defrag

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

const (
	pollInterval = 250 * time.Millisecond
	// openTimeout bounds opening the nodes at the end, when the caller's time may be over.
	openTimeout = 5 * time.Second
)

// Carrier makes the moves of proposals, one at a time.
type Carrier struct {
	Client kubernetes.Interface
	// StepTimeout bounds one step: a pod that ends and starts again, or the placement of the waiting pod.
	StepTimeout time.Duration
	// Report gets each step.
	Report func(text phrase.Text)
	// Now is the clock.
	Now func() time.Time
}

// ErrOutdated means that the cluster has changed since the plan: a new plan is needed.
var ErrOutdated = phrase.Errorf("the plan is out of date")

// CarryOut makes the moves of a proposal. Each move closes the node that the pod leaves, so that the pod goes elsewhere and no other pod takes its
// place. The node to clear is closed from the first move until all pods have left it, and is then kept for the waiting pod by nominating it. CarryOut
// stops at the first failed step with a [StoppedError]: completed moves remain, a new plan can build on them, and all nodes are opened again if
// possible.
func (c *Carrier) CarryOut(ctx context.Context, proposal Proposal) error {
	made, evicted, err := c.makeAll(ctx, proposal)
	if err == nil {
		if err := c.waitForPlaced(ctx, proposal); err != nil {
			return &StoppedError{Made: proposal.Moves, Cause: err}
		}
		return nil
	}
	stopped := &StoppedError{Made: proposal.Moves[:made], Left: proposal.Moves[made:]}
	if evicted {
		stopped.Evicted, stopped.Left = stopped.Left[:1], stopped.Left[1:]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	nodes := map[string]bool{proposal.Node: true}
	for _, move := range proposal.Moves {
		nodes[move.From] = true
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if failed := c.openNode(ctx, node); failed != nil {
			stopped.Closed = append(stopped.Closed, node)
			err = errors.Join(err, failed)
		}
	}
	stopped.Cause = err
	return stopped
}

// makeAll makes the moves, and opens each node once its place can be taken. It returns the number of completed moves, and whether the pod of the next
// move is evicted.
func (c *Carrier) makeAll(ctx context.Context, proposal Proposal) (made int, evicted bool, err error) {
	for i, move := range proposal.Moves {
		var to string
		if to, evicted, err = c.movePod(ctx, proposal.Node, move); err == nil {
			made++
			evicted = false
		}
		if err == nil && to != move.To && i+1 < len(proposal.Moves) {
			err = phrase.Errorf("%w: the new pod is on node %s", ErrOutdated, to)
		}
		if err == nil && move.From != proposal.Node {
			err = c.openNode(ctx, move.From)
		}
		if err != nil {
			return made, evicted, phrase.Errorf("making move %d of %d, %s/%s from node %s to %s: %w",
				i+1, len(proposal.Moves), move.Namespace, move.Pod, move.From, move.To, err)
		}
	}
	if err := c.nominateNode(ctx, proposal); err != nil {
		return made, false, err
	}
	return made, false, c.openNode(ctx, proposal.Node)
}

// nominateNode reserves the node for the waiting pod by a nomination, unless the pod is bound.
func (c *Carrier) nominateNode(ctx context.Context, p Proposal) error {
	pod, err := c.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Pod, metav1.GetOptions{})
	if err != nil {
		return phrase.Errorf("reading pod %s/%s: %w", p.Namespace, p.Pod, err)
	}
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == p.Node {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":%q}}`, p.UID, p.Node)
	_, err = c.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return phrase.Errorf("keeping node %s for pod %s/%s: %w", p.Node, p.Namespace, p.Pod, err)
	}
	return nil
}

// movePod closes the pod's node and the node to clear, and evicts the pod. It waits until the pod is gone and its controller has a new one on another
// node, and returns that node. After a failure, evicted reports whether the pod is evicted without a replacement.
func (c *Carrier) movePod(ctx context.Context, cleared string, move Move) (to string, evicted bool, err error) {
	pod, err := c.Client.CoreV1().Pods(move.Namespace).Get(ctx, move.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && (pod.UID != move.UID || pod.Spec.NodeName != move.From)):
		return "", false, phrase.Errorf("%w: the pod has ended", ErrOutdated)
	case err != nil:
		return "", false, phrase.Errorf("reading the pod: %w", err)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return "", false, phrase.Errorf("nothing would start the pod again")
	}
	if err := c.checkRoom(ctx, pod, move.To); err != nil {
		return "", false, err
	}
	before, err := c.countSiblings(ctx, move, owner.UID)
	if err != nil {
		return "", false, err
	}
	for _, node := range slices.Compact([]string{cleared, move.From}) {
		if err := c.closeNode(ctx, node); err != nil {
			return "", false, err
		}
	}
	if err := c.evictPod(ctx, pod); err != nil {
		return "", false, err
	}
	c.Report(phrase.Textf("%s/%s evicted from %s", move.Namespace, move.Pod, move.From))
	to, err = c.waitForReplaced(ctx, move, owner, before)
	return to, !errors.Is(err, errCameBack), err
}

func (c *Carrier) waitForPlaced(ctx context.Context, p Proposal) error {
	var node string
	awaited := phrase.Textf("pod %s/%s is not placed, though node %s was cleared and is kept for it", p.Namespace, p.Pod, p.Node)
	err := c.pollUntil(ctx, awaited, func(ctx context.Context) (bool, error) {
		pod, err := c.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Pod, metav1.GetOptions{})
		if err == nil {
			node = pod.Spec.NodeName
		}
		return node != "", err
	})
	if err != nil {
		return phrase.Errorf("waiting for pod %s/%s to be placed: %w", p.Namespace, p.Pod, err)
	}
	c.Report(phrase.Textf("%s/%s is on %s", p.Namespace, p.Pod, node))
	return nil
}

// pollUntil repeats a check until it succeeds. If the timeout ends first, the error names what was awaited.
func (c *Carrier) pollUntil(ctx context.Context, awaited phrase.Text, done wait.ConditionWithContextFunc) error {
	ctx, stop := timelimit.WithLimit(ctx, c.StepTimeout, awaited)
	defer stop()
	return timelimit.Explain(ctx, wait.PollUntilContextCancel(ctx, pollInterval, true, done))
}

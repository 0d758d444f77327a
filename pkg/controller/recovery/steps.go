package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/controller/evictions"
	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/eviction"
)

// The reasons of events.
const (
	eventSuspect    = "NodeSuspect"
	eventTrusted    = "NodeTrusted"
	eventDeclared   = "NodeOutOfService"
	eventReturned   = "NodeInServiceAgain"
	eventHeld       = "NodeNotDeclaredDead"
	eventUnreadable = "UnreadableHealth"
	eventGang       = "GangEvicted"
)

// errSignOfLife means that a node about to be declared dead is alive, errStale that its silence is no longer known.
var (
	errSignOfLife = errors.New("the node has given a sign of life")
	errStale      = errors.New("the signs of life are not heard")
)

// carryOutStep performs a step with one write on the node as it was read: a concurrent change makes the write fail, and everything is decided again. dead
// are all nodes of the pool that are being declared.
func (r *Reconciler) carryOutStep(ctx context.Context, node *corev1.Node, step Step, dead []string) error {
	if step.Held != "" {
		r.reportOnce(node, corev1.EventTypeWarning, eventHeld, "it is not taken for dead: "+step.Held)
	}
	if !step.HasChanges() {
		return nil
	}
	if step.Declare {
		if err := r.confirmSilent(ctx, node); err != nil {
			return err
		}
		if err := r.evictStranded(ctx, node, dead); err != nil {
			return err
		}
	}
	changed, err := applyStep(node, step)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("changing node %s: %w", node.Name, err)
	}
	if step.Held == "" {
		r.reported.Delete(node.Name)
	}
	countStep(step)
	r.announceStep(ctx, node, step)
	return nil
}

// applyStep returns the node after a step.
func applyStep(node *corev1.Node, step Step) (*corev1.Node, error) {
	out := node.DeepCopy()
	taints := out.Spec.Taints
	if step.Trust {
		taints = slices.DeleteFunc(taints, isSuspect)
	}
	if step.Return {
		taints = slices.DeleteFunc(taints, isOutOfServiceByUs)
	}
	if step.Suspect {
		value := g8s.SuspectCondition
		if !condition.IsNodeTrue(node, corev1.NodeReady) {
			value = g8s.SuspectNotReady
		}
		taints = append(taints, corev1.Taint{Key: g8s.TaintSuspect, Value: value, Effect: corev1.TaintEffectNoSchedule})
	}
	if step.Declare {
		taints = append(taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: g8s.OutOfServiceByController, Effect: corev1.TaintEffectNoExecute,
		})
	}
	out.Spec.Taints = taints
	if step.Record != nil {
		text, err := step.Record.EncodeAnnotation()
		if err != nil {
			return nil, fmt.Errorf("writing the record of node %s: %w", node.Name, err)
		}
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, g8s.AnnotationHealth, text)
	}
	return out, nil
}

// announceStep records events for a performed step.
func (r *Reconciler) announceStep(ctx context.Context, node *corev1.Node, step Step) {
	ctrl.LoggerFrom(ctx).V(2).Info("Changed a node", "node", node.Name, "suspect", step.Suspect, "trust", step.Trust,
		"outOfService", step.Declare, "return", step.Return, "why", step.Why)
	say := func(kind, reason, text string) { r.Events.Eventf(node, nil, kind, reason, "Recover", "%s", text) }
	if step.Suspect {
		say(corev1.EventTypeWarning, eventSuspect, step.Why+": it gets no new pods until it has been well for a while")
	}
	if step.Declare {
		say(corev1.EventTypeWarning, eventDeclared, step.Why+": its pods are ended, and their jobs run elsewhere")
	}
	if step.Return {
		say(corev1.EventTypeNormal, eventReturned, step.Why)
	}
	if step.Trust {
		say(corev1.EventTypeNormal, eventTrusted, step.Why+": it gets new pods")
	}
}

// reportOnce records an event about a node that is left alone, once per message.
func (r *Reconciler) reportOnce(node *corev1.Node, kind, reason, text string) {
	if before, _ := r.reported.Swap(node.Name, text); before != text {
		r.Events.Eventf(node, nil, kind, reason, "Recover", "%s", text)
	}
}

// confirmSilent checks with the API server that the lease of a node is still the one that we saw last. If no node is heard any more since the decision,
// there is nothing to compare: that is no proof, unless its cloud reports the node as off.
func (r *Reconciler) confirmSilent(ctx context.Context, node *corev1.Node) error {
	_, version := r.Signs.SilentFor(node.Name)
	if version == "" && !hasTaint(node, isShutDown) {
		return fmt.Errorf("%w: of node %s", errStale, node.Name)
	}
	var lease coordinationv1.Lease
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, &lease)
	if apierrors.IsNotFound(err) {
		return nil // its cloud reports it as off, or there would be no silence
	}
	if err != nil {
		return fmt.Errorf("reading the lease of node %s: %w", node.Name, err)
	}
	if version != "" && lease.ResourceVersion != version {
		r.Signs.RecordLease(node.Name, lease.ResourceVersion)
		return fmt.Errorf("%w: %s", errSignOfLife, node.Name)
	}
	return nil
}

// evictStranded evicts the gang members that cannot work without the pods of a node about to be declared dead. It runs before the declaration: after a
// crash the node is found again, because it is not declared yet. A refused eviction leaves a member in place and does not block others.
func (r *Reconciler) evictStranded(ctx context.Context, node *corev1.Node, dead []string) error {
	pods, err := r.podsOn(ctx, node.Name)
	if err != nil {
		return err
	}
	reader, seen := gangs.Reader{Cache: r.Client, Live: r.Live}, map[*gangs.Gang]bool{}
	for _, pod := range pods {
		gang, err := reader.GangOf(ctx, pod)
		if err != nil {
			return err
		}
		if seen[gang] {
			continue
		}
		seen[gang] = true
		for _, member := range StrandedMembers(gang.Members, dead, gang.Least) {
			r.evictPod(ctx, member, node.Name)
		}
	}
	return nil
}

// evictPod requests the eviction of a pod within disruption budgets, which costs no retry.
func (r *Reconciler) evictPod(ctx context.Context, pod *corev1.Pod, dead string) {
	outcome, err := eviction.Evict(ctx, evictions.Client{Client: r.Client}, pod)
	switch outcome {
	case eviction.Gone:
	case eviction.Refused, eviction.OverBudget, eviction.Busy:
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, eventGang, "Recover",
			"it has lost the members of its gang on node %s, which is dead, and stays: %v", dead, err)
	case eviction.Evicted:
		r.Events.Eventf(pod, nil, corev1.EventTypeNormal, eventGang, "Recover",
			"it has lost the members of its gang on node %s, which is dead: the gang starts again as a whole", dead)
	}
}

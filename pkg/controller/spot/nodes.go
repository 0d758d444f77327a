package spot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/evictions"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
	"g8s.host/gpu-scheduler/pkg/eviction"
)

// The reasons of events on nodes and pods.
const (
	eventLeaving    = "MachineLeaving"
	eventStays      = "MachineStays"
	eventCheckpoint = "CheckpointNow"
	eventMoved      = "MovedFromSpotMachine"
	eventNotMoved   = "NotMovedFromSpotMachine"
)

// applySteps performs the node steps of a plan. A failed step does not block the others.
func (r *Reconciler) applySteps(ctx context.Context, v *view, steps []NodeStep) error {
	var failed []error
	var emptied []string
	for _, step := range steps {
		if step.Evict {
			emptied = append(emptied, step.Name)
		}
	}
	for _, step := range steps {
		failed = append(failed, r.markNode(ctx, v, step))
	}
	for _, step := range steps {
		pods := v.pods[step.Name]
		switch {
		case !step.Checkpoint.IsZero():
			failed = append(failed, r.askCheckpoints(ctx, v, pods, step))
		case step.Evict:
			failed = append(failed, r.emptyNode(ctx, v, pods, step, emptied))
		}
		if step.Gone {
			failed = append(failed, r.endPods(ctx, pods))
		}
		if step.Delete {
			failed = append(failed, r.deleteNode(ctx, v.nodes[step.Name]))
		}
	}
	return errors.Join(failed...)
}

// markNode sets the required labels and taints of a node.
func (r *Reconciler) markNode(ctx context.Context, v *view, step NodeStep) error {
	node := v.nodes[step.Name]
	changed := node.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	for key, value := range labelsOf(v.facts.Pool) {
		changed.Labels[key] = value
	}
	changed.Spec.Taints = taintsOf(node.Spec.Taints, step)
	if equality.Semantic.DeepEqual(changed.Labels, node.Labels) && equality.Semantic.DeepEqual(changed.Spec.Taints, node.Spec.Taints) {
		return nil
	}
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("marking node %s: %w", node.Name, err)
	}
	was := slices.ContainsFunc(node.Spec.Taints, isLeaving)
	switch {
	case step.Leaving != "" && !was:
		r.Events.Eventf(changed, nil, corev1.EventTypeWarning, eventLeaving, "Empty", "its machine is to go (%s): it gets no new pods", step.Leaving)
	case step.Leaving == "" && was:
		r.Events.Eventf(changed, nil, corev1.EventTypeNormal, eventStays, "Open", "its machine stays after all: it gets new pods")
	}
	return nil
}

func isLeaving(t corev1.Taint) bool { return t.Key == g8s.TaintLeaving }

// taintsOf returns the taints of a node with ours as a step requires.
func taintsOf(taints []corev1.Taint, step NodeStep) []corev1.Taint {
	out := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return t.Key == g8s.TaintJoining || isLeaving(t) || isGone(t)
	})
	if step.Starting {
		out = append(out, corev1.Taint{Key: g8s.TaintJoining, Effect: corev1.TaintEffectNoSchedule})
	}
	if step.Leaving != "" {
		out = append(out, corev1.Taint{Key: g8s.TaintLeaving, Value: step.Leaving, Effect: corev1.TaintEffectNoSchedule})
	}
	if step.Gone {
		i := slices.IndexFunc(taints, isGone)
		taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: g8s.OutOfServiceGone, Effect: corev1.TaintEffectNoExecute}
		if i >= 0 {
			taint = taints[i] // keep its time
		}
		out = append(out, taint)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func isGone(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeOutOfService && t.Value == g8s.OutOfServiceGone
}

// askCheckpoints asks the pods of a node that want it, and the rest of their gangs, to save their state.
func (r *Reconciler) askCheckpoints(ctx context.Context, v *view, pods []*corev1.Pod, step NodeStep) error {
	var failed []error
	for _, pod := range pods {
		asked, err := podsToCheckpoint(ctx, v.gangs, pod)
		if err != nil {
			return err
		}
		for _, member := range asked {
			if before, err := time.Parse(time.RFC3339, member.Annotations[g8s.AnnotationCheckpointNow]); err == nil && before.After(v.facts.Now) {
				continue // already asked
			}
			until := step.Checkpoint.UTC().Format(time.RFC3339)
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, member.UID, g8s.AnnotationCheckpointNow, until)
			err := r.Client.Patch(ctx, member.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				continue
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("asking pod %s/%s for a checkpoint: %w", member.Namespace, member.Name, err))
				continue
			}
			metav1.SetMetaDataAnnotation(&member.ObjectMeta, g8s.AnnotationCheckpointNow, until)
			r.Events.Eventf(member, nil, corev1.EventTypeWarning, eventCheckpoint, "Checkpoint",
				"it is moved at %s, as the machine of node %s is to go: its state is to be saved by then", until, step.Name)
		}
	}
	return errors.Join(failed...)
}

// emptyNode evicts the pods of a node, and then the members of their gangs that cannot continue without them. emptied are all nodes being emptied.
func (r *Reconciler) emptyNode(ctx context.Context, v *view, pods []*corev1.Pod, step NodeStep, emptied []string) error {
	var failed []error
	for _, pod := range pods {
		leaves := pod.DeletionTimestamp != nil // a killed controller may not have evicted the rest of the gang
		if !leaves && !r.evictPod(ctx, pod, step.Name) && !step.Gone {
			continue
		}
		all, err := v.gangs.GangOf(ctx, pod)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, member := range recovery.StrandedMembers(all.Members, emptied, all.Least) {
			if leaves && recovery.IsNewer(member, pod) {
				continue
			}
			if r.evictPod(ctx, member, step.Name) {
				member.DeletionTimestamp = ptr.To(metav1.NewTime(v.facts.Now)) // do not evict it again for the next member
			}
		}
	}
	return errors.Join(failed...)
}

// evictPod requests the eviction of a pod within disruption budgets, which costs no retry, and reports whether it leaves.
func (r *Reconciler) evictPod(ctx context.Context, pod *corev1.Pod, node string) bool {
	if eviction.HoldOf(pod, eviction.SpotMachine) != "" {
		r.reportOnce(pod, "it is not to be moved without a person, though the machine of node "+node+" is to go")
		return false
	}
	outcome, err := eviction.Evict(ctx, evictions.Client{Client: r.Client}, pod)
	if err != nil {
		r.reportOnce(pod, fmt.Sprintf("the machine of node %s is to go, and it stays: %v", node, err))
	}
	if outcome != eviction.Evicted {
		return outcome.IsLeaving()
	}
	r.reported.Delete(pod.UID)
	r.Events.Eventf(pod, nil, corev1.EventTypeNormal, eventMoved, "Move", "the machine of node %s is to go: it, or its gang, starts again elsewhere", node)
	return true
}

// reportOnce records an event about a pod that stays, once per message.
func (r *Reconciler) reportOnce(pod *corev1.Pod, text string) {
	if before, _ := r.reported.Swap(pod.UID, text); before != text {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, eventNotMoved, "Move", "%s", text)
	}
}

// endPods sets the terminating pods of an ended machine to Failed, because no kubelet can.
func (r *Reconciler) endPods(ctx context.Context, pods []*corev1.Pod) error {
	var failed []error
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, corev1.PodFailed)
		err := r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("ending pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (r *Reconciler) deleteNode(ctx context.Context, node *corev1.Node) error {
	err := r.Client.Delete(ctx, node, client.Preconditions{UID: ptr.To(node.UID)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting node %s, whose machine has ended: %w", node.Name, err)
	}
	return nil
}

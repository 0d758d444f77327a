package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate/choice"
)

// outcome is the result of one attempt to place a pod.
type outcome struct {
	// bound are the pods that got a node: the pod itself, and the members of its gang that waited for it.
	bound []*corev1.Pod
	// held is true if the pod has a place and waits for the other members of its gang.
	held bool
	// released are members of gangs that released their places.
	released []types.UID
	// evicted are the victims, nominated the node on which they make room.
	evicted   []types.NamespacedName
	nominated string
	// reasons are why the pod has no place, the most frequent first.
	reasons []string
	// verdict is the same as kube-scheduler's message on the pod.
	verdict string
}

// attemptPod runs one scheduling attempt, as kube-scheduler does: PreFilter, Filter and Score, then Reserve, Permit and Bind,
// or PostFilter where no node will do.
func (e *engine) attemptPod(ctx context.Context, pod *corev1.Pod) (outcome, error) {
	fw, ok := e.podProfile(pod)
	if !ok {
		return outcome{reasons: []string{fmt.Sprintf("the configuration has no profile for schedulerName %q", pod.Spec.SchedulerName)}}, nil
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return outcome{reasons: []string{"it is held back by scheduling gate " + pod.Spec.SchedulingGates[0].Name}}, nil
	}
	state := newState()
	result, err := choice.ChooseNode(ctx, e.scheduler, fw, state, pod)
	var unfit *framework.FitError
	var out outcome
	switch {
	case errors.As(err, &unfit):
		out, err = e.runPostFilter(ctx, fw, state, unfit)
	case err == nil:
		out, err = e.reservePod(ctx, fw, state, bindToNode(pod, result.SuggestedHost))
	}
	if err != nil {
		return outcome{}, err
	}
	return out, e.settleGangs(ctx, &out)
}

// chooseNode decides where a pod would go, and on which GPUs, without reserving anything. The node is "" if it fits nowhere.
func (e *engine) chooseNode(ctx context.Context, pod *corev1.Pod) (Decision, []string, error) {
	decision := Decision{Pod: podKey(pod).String()}
	fw, ok := e.podProfile(pod)
	if !ok {
		return decision, nil, fmt.Errorf("the configuration has no profile for schedulerName %q", pod.Spec.SchedulerName)
	}
	state := newState()
	result, err := choice.ChooseNode(ctx, e.scheduler, fw, state, pod)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		return decision, rejectionReasons(unfit), nil
	}
	if err != nil {
		return decision, nil, err
	}
	node := result.SuggestedHost
	placed := bindToNode(pod, node)
	defer fw.RunReservePluginsUnreserve(ctx, state, placed, node)
	if status := fw.RunReservePluginsReserve(ctx, state, placed, node); !status.IsSuccess() {
		return decision, nil, fmt.Errorf("reserving on node %s: %w", node, status.AsError())
	}
	if status := fw.RunBindPlugins(ctx, state, placed, node); !status.IsSuccess() {
		return decision, nil, fmt.Errorf("binding: %w", status.AsError())
	}
	decision.Node, decision.Devices = node, e.api.takeBinding()[names.AnnotationGPUDevices]
	return decision, nil, nil
}

// newState returns the state with which kube-scheduler begins an attempt.
func newState() fwk.CycleState {
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	return state
}

func bindToNode(pod *corev1.Pod, node string) *corev1.Pod {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	return placed
}

// runPostFilter runs PostFilter, so that the plugins make room for the pod if they can.
func (e *engine) runPostFilter(ctx context.Context, fw framework.Framework, state fwk.CycleState, unfit *framework.FitError) (outcome, error) {
	out := outcome{reasons: rejectionReasons(unfit)}
	result, status := fw.RunPostFilterPlugins(ctx, state, unfit.Pod, unfit.Diagnosis.NodeToStatus)
	if status.Code() == fwk.Error {
		return outcome{}, fmt.Errorf("running PostFilter: %w", status.AsError())
	}
	unfit.Diagnosis.PostFilterMsg = status.Message()
	out.verdict = unfit.Error()
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
		return out, nil
	}
	out.nominated = result.NominatedNodeName
	if err := waitForEvictions(ctx, fw, unfit.Pod); err != nil {
		return outcome{}, err
	}
	out.evicted = e.api.takeEvicted()
	for _, h := range e.held {
		// Preemption itself notifies such pods, but not this engine. At worst a gang releases places that it gets again.
		if h.pod.Spec.NodeName == out.nominated && schedulinghelper.PodPriority(h.pod) < schedulinghelper.PodPriority(unfit.Pod) {
			h.Reject(pluginnames.DefaultPreemption, "it makes room for a pod of higher priority")
		}
	}
	return out, nil
}

// waitForEvictions returns when the goroutines of preemption, of pods and of gangs, have evicted their victims.
func waitForEvictions(ctx context.Context, fw framework.Framework, preemptor *corev1.Pod) error {
	for _, plugin := range fw.PreEnqueuePlugins() {
		settled := func() bool { return true }
		if plugin.Name() == pluginnames.DefaultPreemption {
			settled = func() bool { return plugin.PreEnqueue(ctx, preemptor).IsSuccess() }
		} else if gangs, ok := plugin.(interface{ Settled() bool }); ok {
			settled = gangs.Settled
		}
		for !settled() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Microsecond):
			}
		}
	}
	return nil
}

// reservePod reserves the place of a pod, and binds it unless it has to wait for the other members of its gang.
func (e *engine) reservePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod) (outcome, error) {
	node := pod.Spec.NodeName
	h := &permitWait{pod: pod, state: state, fw: fw}
	if err := e.scheduler.Cache.AssumePod(klog.FromContext(ctx), pod); err != nil {
		return outcome{}, fmt.Errorf("assuming pod %s on node %s: %w", klog.KObj(pod), node, err)
	}
	if status := fw.RunReservePluginsReserve(ctx, state, pod, node); !status.IsSuccess() {
		return outcome{}, fmt.Errorf("reserving on node %s: %w", node, status.AsError())
	}
	switch waits, status := fw.RunPermitPlugins(ctx, state, pod, node); {
	case status.IsWait():
		fw.AddWaitingPod(pod, waits)
		e.held = append(e.held, h)
		return outcome{held: true}, nil
	case status.IsRejected():
		return outcome{reasons: status.Reasons()}, e.unreservePod(ctx, h)
	case !status.IsSuccess():
		return outcome{}, fmt.Errorf("running Permit: %w", status.AsError())
	}
	bound, err := e.bindPod(ctx, h)
	return outcome{bound: []*corev1.Pod{bound}}, err
}

// bindPod makes a reserved place final.
func (e *engine) bindPod(ctx context.Context, h *permitWait) (*corev1.Pod, error) {
	node := h.pod.Spec.NodeName
	if status := h.fw.RunBindPlugins(ctx, h.state, h.pod, node); !status.IsSuccess() {
		return nil, fmt.Errorf("binding: %w", status.AsError())
	}
	bound := h.pod.DeepCopy()
	for key, value := range e.api.takeBinding() {
		if bound.Annotations == nil {
			bound.Annotations = map[string]string{}
		}
		bound.Annotations[key] = value
	}
	if !e.now.IsZero() {
		bound.Status.StartTime = &metav1.Time{Time: e.now}
	}
	if err := e.addBoundPod(bound); err != nil {
		return nil, err
	}
	h.fw.RunPostBindPlugins(ctx, h.state, bound, node)
	return bound, nil
}

// unreservePod takes a reserved place back.
func (e *engine) unreservePod(ctx context.Context, h *permitWait) error {
	h.fw.RunReservePluginsUnreserve(ctx, h.state, h.pod, h.pod.Spec.NodeName)
	if err := e.scheduler.Cache.ForgetPod(klog.FromContext(ctx), h.pod); err != nil {
		return fmt.Errorf("forgetting pod %s: %w", klog.KObj(h.pod), err)
	}
	return nil
}

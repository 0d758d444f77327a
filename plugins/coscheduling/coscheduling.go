// Package coscheduling runs scheduler-plugins' Coscheduling, under its name and with its arguments, which holds the
// pods of a PodGroup back until all of them have a place. Nothing else in this project knows it: gangs are pods with the
// label scheduling.x-k8s.io/pod-group and a PodGroup, whoever places them.
//
// What is added lets it run beside other pods and beside our plugins. A gang of which some members have a place comes
// first among its equals, or gangs would take places from each other for ever, none of them whole. Members that gave up
// their places are tried again as soon as there may be room, instead of after five minutes. A member that is started again
// after others have succeeded does not wait for those. It signs pods, without which kube-scheduler would place no pods in
// batches any more. And it keeps silent about pods of no group.
package coscheduling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	listersv1 "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	upstream "sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/util"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Name is the plugin's name in the scheduler configuration: that of scheduler-plugins.
const Name = upstream.Name

var (
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Plugin holds gangs together for one scheduler profile.
type Plugin struct {
	*upstream.Coscheduling
	started  started
	finished finished
	pods     listersv1.PodLister
	// groups reads PodGroups from a cache.
	groups client.Reader
}

// New builds the plugin from scheduler-plugins' CoschedulingArgs.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin, err := upstream.New(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	inner, ok := plugin.(*upstream.Coscheduling)
	if !ok {
		return nil, fmt.Errorf("scheduler-plugins' %s is a %T", Name, plugin)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering PodGroups: %w", err)
	}
	groups, _, err := util.NewClientWithCachedReader(ctx, handle.KubeConfig(), scheme)
	if err != nil {
		return nil, fmt.Errorf("reading PodGroups: %w", err)
	}
	finished, err := watchFinished(ctx, handle.ClientSet())
	if err != nil {
		return nil, err
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	return &Plugin{Coscheduling: inner, finished: finished, pods: pods, groups: groups}, nil
}

// groupOf returns the PodGroup of a pod, and false if it is in none.
func groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	name := pod.Labels[names.LabelPodGroup]
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// Less sorts pods by priority, then members of gangs that have begun to take places, then as scheduler-plugins does:
// by the time of the pod or of its group.
func (p *Plugin) Less(a, b fwk.QueuedPodInfo) bool {
	first, second := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	if ptr.Deref(first.Spec.Priority, 0) == ptr.Deref(second.Spec.Priority, 0) {
		if begun := p.hasBegun(first); begun != p.hasBegun(second) {
			return begun
		}
	}
	return p.Coscheduling.Less(a, b)
}

func (p *Plugin) hasBegun(pod *corev1.Pod) bool {
	group, ok := groupOf(pod)
	return ok && p.started.has(group)
}

// PreFilter turns a member away while there is no room for all of a gang. Without that gangs would take places and give
// them up again without end, and wake each other up each time. A gang that has begun goes on.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	group, ok := groupOf(pod)
	if ok && p.finished.before(pod) {
		return nil, nil
	}
	result, status := p.Coscheduling.PreFilter(ctx, state, pod, nodes)
	if !ok || !status.IsSuccess() || p.started.has(group) {
		return result, status
	}
	if status := p.roomForAll(ctx, pod, group, nodes); status != nil {
		return nil, status
	}
	return result, status
}

// roomForAll says why there is no room for all members, nil when there may be: also when the members are not alike,
// which would have to be planned one by one.
func (p *Plugin) roomForAll(ctx context.Context, pod *corev1.Pod, group types.NamespacedName, nodes []fwk.NodeInfo) *fwk.Status {
	var podGroup v1alpha1.PodGroup
	if err := p.groups.Get(ctx, group, &podGroup); err != nil {
		return nil // Permit asks for the group again
	}
	members, err := p.pods.Pods(group.Namespace).List(labels.SelectorFromSet(labels.Set{names.LabelPodGroup: group.Name}))
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing the members of gang %s: %w", group, err))
	}
	for _, member := range members {
		if !alike(pod, member) {
			return nil
		}
	}
	found, err := roomFor(pod, group, nodes)
	if err != nil {
		return nil // GPUFilter tells what is wrong with the pod
	}
	return found.verdict(int(podGroup.Spec.MinMember))
}

// Permit lets a member wait until all have a place.
func (p *Plugin) Permit(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (*fwk.Status, time.Duration) {
	if _, ok := groupOf(pod); ok && p.finished.before(pod) {
		return nil, 0
	}
	status, timeout := p.Coscheduling.Permit(ctx, state, pod, node)
	if group, ok := groupOf(pod); ok {
		if status.IsWait() {
			p.started.begin(group)
		} else {
			p.started.end(group)
		}
	}
	return status, timeout
}

// Unreserve has all members give up their places when one does.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if group, ok := groupOf(pod); ok {
		p.started.end(group)
	}
	p.Coscheduling.Unreserve(ctx, state, pod, node)
}

// reasonWhole is told of each member for which there is no place.
const reasonWhole = "gang: the other members give up their places until all fit at once"

// PostFilter has the members that wait give up their places when one finds none, so that no part of a gang keeps GPUs
// from others.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	group, ok := groupOf(pod)
	if !ok {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	begun := p.started.has(group)
	p.started.end(group)
	result, status := p.Coscheduling.PostFilter(ctx, state, pod, nodes)
	switch {
	case status.Code() != fwk.Unschedulable:
		return result, status
	case begun:
		return result, fwk.NewStatus(fwk.Unschedulable, reasonWhole)
	}
	return result, fwk.NewStatus(fwk.Unschedulable) // PreFilter has said why
}

// EventsToRegister adds what makes room. Only members whom this plugin turned away wait for it: those that had a place
// while another one had none.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	events, err := p.Coscheduling.EventsToRegister(ctx)
	if err != nil {
		return nil, err
	}
	nodeChanges := fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint
	return append(events,
		fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
		fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeChanges}},
	), nil
}

// SignPod refuses members: whether one is let through depends on the others. All other pods are alike to this plugin.
func (*Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := groupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod is a member of a gang")
	}
	return nil, nil
}

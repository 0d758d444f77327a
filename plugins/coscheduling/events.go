package coscheduling

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
	"g8s.host/gpu-scheduler/pkg/hint"
)

// EventsToRegister names the events that can make room for a gang, or make it whole. They only concern members that this plugin rejected.
// PodGroups are not included: kube-scheduler would watch them with an informer of its own and wait for it at startup, even where the CRD is
// missing. watchPodsAndGroups takes its place.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodeEvents := fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAnnotation
	podEvents := fwk.Add | fwk.Delete | fwk.UpdatePodLabel | fwk.UpdatePodScaleDown | fwk.UpdatePodToleration
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeEvents}, QueueingHintFn: p.afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: podEvents}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnChange},
	}, nil
}

// afterOwnChange queues a member whose requirements changed, including those in annotations, which kube-scheduler reports in no other way.
func afterOwnChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint.QueueIf(before != nil && after != nil && after.UID == pod.UID && !placement.HaveSameDemand(before, after)), nil
}

// afterNodeChange queues a member when a node that is open to it, or to a sibling, is added or changed, unless more room there would not help.
// The inventory is the only annotation that affects room.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil || before != nil && hasSameCapacity(before, after) || !p.isNodeOpen(pod, after) {
		return fwk.QueueSkip, nil
	}
	off := p.filterBlockOf(pod)
	isNews := !off.IsInDomain(after) || before != nil && off.IsMoved(before, after)
	return hint.QueueIf(isNews && p.IsRepresentative(pod) && p.shouldRequeue(pod)), nil
}

// IsRepresentative reports whether a member is the representative that is tried for its gang when there may be room. If it gets a place, the
// others are activated, so a large waiting gang costs no more than a small one. If the representative was deleted, or has a place, all members
// are tried. A gang whose PodGroup is missing or malformed waits for the PodGroup, and an incomplete gang for its last member. Members of a
// complete gang are placed one by one, and each waits for itself.
func (p *Plugin) IsRepresentative(pod *corev1.Pod) bool {
	name, ok := p.groups.GroupOf(pod)
	if !ok {
		return true
	}
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" || p.gangs.holdsMembers(name) {
		return false
	}
	g := gangOf(pod, group)
	scout := p.gangs.representativeOf(g)
	return p.gangs.isComplete(g, group.MinMember) || scout == nameOf(pod) || !p.isPendingMember(scout, g, group)
}

// isPendingMember reports whether a pod is a member of a gang without a place.
func (p *Plugin) isPendingMember(name types.NamespacedName, g gang, group *podgroup.Group) bool {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok {
		return false
	}
	of, ok := p.groups.GroupOf(pod)
	return ok && of == g.group && isLive(pod) && gangOf(pod, group) == g && p.placeOf(pod) == placeNone
}

// hasSameCapacity reports whether nothing changed that affects room.
func hasSameCapacity(before, after *corev1.Node) bool {
	return before.Annotations[names.AnnotationInventory] == after.Annotations[names.AnnotationInventory] &&
		maps.Equal(before.Labels, after.Labels) && placement.SameAmounts(before.Status.Allocatable, after.Status.Allocatable) &&
		before.Spec.Unschedulable == after.Spec.Unschedulable && slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// afterPodChange queues a member when a pod leaves a node that is open to it or requests less there, when a sibling arrives or gets a place, and
// when the pod itself changes. A member that another plugin keeps out of free room is queued when a pod that may matter comes or goes, wherever
// it is.
func (p *Plugin) afterPodChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case before == nil && after == nil:
		return fwk.QueueSkip, nil
	case after == nil:
		if p.isStillPending(before) && (p.inSameGroup(before, pod) || !p.mayBeTried(pod)) {
			return fwk.QueueSkip, nil
		}
		return hint.QueueIf(p.mayFreePlace(before, pod) && p.IsRepresentative(pod) && p.shouldRequeue(pod)), nil
	case before == nil:
		return hint.QueueIf((p.inSameGroup(after, pod) || p.filterBlockOf(pod).MayHelp(after)) && p.IsRepresentative(pod) && p.shouldRequeue(pod)), nil
	}
	isNews := after.UID == pod.UID || (p.inSameGroup(after, pod) || p.mayFreePlaceByUpdate(before, after, pod)) && p.IsRepresentative(pod)
	return hint.QueueIf(isNews && p.shouldRequeue(pod)), nil
}

// filterBlockOf returns the block of a gang whose members wait for a change of nodes or pods; nil for a gang without one and for an unknown gang.
func (p *Plugin) filterBlockOf(member *corev1.Pod) *rejection.Block {
	name, ok := p.groups.GroupOf(member)
	if group := p.groups.GetGroup(name); ok && group != nil {
		return p.gangs.currentBlock(gangOf(member, group), p.now())
	}
	return nil
}

// mayFreePlace reports whether a member may find a place because a pod is gone.
func (p *Plugin) mayFreePlace(gone, member *corev1.Pod) bool {
	node := nodeOrNomination(gone)
	return node != "" && (p.filterBlockOf(member).MayBlock(gone) || p.mayHaveRoom(node, member))
}

// mayFreePlaceByUpdate reports whether a member may find a place because a pod on a node has changed.
func (p *Plugin) mayFreePlaceByUpdate(before, after, member *corev1.Pod) bool {
	if off := p.filterBlockOf(member); off != nil && !maps.Equal(before.Labels, after.Labels) && (off.MayBlock(before) || off.MayHelp(after)) {
		return true
	}
	return p.mayHaveRoom(nodeOrNomination(after), member) && !slices.Equal(sortedAsks(before), sortedAsks(after))
}

// sortedAsks returns the requests of a pod, sorted.
func sortedAsks(pod *corev1.Pod) []cycle.ResourceRequest {
	return slices.SortedFunc(slices.Values(cycle.PodResourceRequests(pod)), func(a, b cycle.ResourceRequest) int { return cmp.Compare(a.Resource, b.Resource) })
}

// nodeOrNomination returns the node of a pod, or its nominated node, "" for none.
func nodeOrNomination(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
}

// inSameGroup reports whether two pods are members of the same group.
func (p *Plugin) inSameGroup(a, b *corev1.Pod) bool {
	first, ok := p.groups.GroupOf(a)
	second, _ := p.groups.GroupOf(b)
	return ok && first == second
}

// isNodeOpen reports whether a node is open to a member, or to a sibling that it represents.
func (p *Plugin) isNodeOpen(member *corev1.Pod, node *corev1.Node) bool {
	if isOpenTo(node, member) {
		return true
	}
	name, ok := p.groups.GroupOf(member)
	group := p.groups.GetGroup(name)
	if !ok || group == nil {
		return false
	}
	all := p.gangs.pendingClassesOf(gangOf(member, group))
	return all.hasOpenNode(node)
}

// mayHaveRoom reports whether room on a node may be what a member, or a sibling, lacks.
func (p *Plugin) mayHaveRoom(at string, member *corev1.Pod) bool {
	node, err := p.nodes.Get(at)
	return err == nil && p.isNodeOpen(member, node) && !p.filterBlockOf(member).BlocksNode(node)
}

// isStillPending reports whether a pod that is reported to have left its node still exists: it only lost its place in this scheduler. Its
// siblings must not be woken, or they would wake each other up forever; the same holds for rejected gangs.
func (p *Plugin) isStillPending(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && there.Spec.NodeName == ""
}

// watchPodsAndGroups watches pods that other schedulers place, and PodGroups.
func (p *Plugin) watchPodsAndGroups(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.podChanged,
		UpdateFunc: func(old, object any) {
			before, _ := old.(*corev1.Pod)
			after, _ := object.(*corev1.Pod)
			p.handleGroupExit(before, after)
			p.handleRevision(before, after)
			p.podChanged(object)
		},
		DeleteFunc: p.podGone,
	})
	if err != nil {
		return fmt.Errorf("following pods: %w", err)
	}
	_, err = p.groups.PodGroups.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.groupChanged(nil, object) },
		UpdateFunc: func(old, object any) {
			before, _ := old.(*podgroup.Group)
			p.groupChanged(before, object)
		},
		DeleteFunc: p.groupGone,
	})
	if err != nil {
		return fmt.Errorf("following PodGroups: %w", err)
	}
	for _, ofKind := range p.groups.Workloads {
		for _, of := range ofKind {
			if err := p.watchWorkloads(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// handleGroupExit handles a pod that changes its PodGroup, or ends.
func (p *Plugin) handleGroupExit(before, after *corev1.Pod) {
	if before == nil || after == nil || !isLive(before) {
		return
	}
	if !isLive(after) || !p.inSameGroup(before, after) {
		p.dropEmptyGroups(before)
	}
}

// podChanged records a bound member, whichever scheduler bound it: that may complete the gang.
func (p *Plugin) podChanged(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	name, ok := p.groups.GroupOf(pod)
	if pod.Spec.NodeName == "" {
		return
	}
	p.queuePositions.RecordGone(pod.UID, p.now())
	if !isLive(pod) && pkggang.MayBeMember(pod) {
		p.forgetMember(pod)
		return
	}
	if !ok {
		p.forgetSinglePod(pod)
		return
	}
	if group := p.groups.GetGroup(name); group != nil {
		p.gangs.recordBinding(gangOf(pod, group), pod.UID, pod.Spec.NodeName, group.MinMember)
		p.releaseIfWhole(pod, group)
	}
	p.releaseHeldMembers(name)
}

// PodGone drops the state of a pod that is gone, where no informer reports that.
func (p *Plugin) PodGone(pod *corev1.Pod) { p.forgetMember(pod) }

func (p *Plugin) podGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		p.noteEarlierLoss(pod)
		p.forgetMember(pod)
	}
}

// forgetMember drops the state of a member that is gone, and of its gang with the last member, even if it never had a place. It does not check
// whether the gang has one owner, because the PodGroup may be gone before its pods.
func (p *Plugin) forgetMember(pod *corev1.Pod) {
	p.queuePositions.RecordGone(pod.UID, p.now())
	if g, ok := p.gangs.forgetPod(pod.UID); ok {
		p.noteLostMember(g, pod)
		p.dropEmptyGang(g)
	}
	if _, ok := p.groups.GroupOf(pod); !ok {
		p.startReservations.EndReservation(string(pod.UID))
		p.forgetSinglePod(pod)
	}
	p.dropEmptyGroups(pod)
	for _, name := range pkggang.NamesFor(pod) {
		p.releaseHeldMembers(name)
	}
}

// dropEmptyGroups drops the state of the gangs that a pod may have belonged to, if it was the last member. The object that determined the gang may be
// gone before its pods, or may no longer form a gang.
func (p *Plugin) dropEmptyGroups(pod *corev1.Pod) {
	for _, name := range pkggang.NamesFor(pod) {
		p.dropEmptyGang(gang{group: name})
		p.dropEmptyGang(gang{group: name, owner: placement.OwnerOf(pod)})
	}
}

// groupChanged activates the members that waited for the PodGroup, or for its new content.
func (p *Plugin) groupChanged(before *podgroup.Group, object any) {
	group, ok := object.(*podgroup.Group)
	if !ok || before != nil && before.HasSameRules(group) {
		return
	}
	name := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	p.gangs.requireRecount(name)
	waiting, there, count := map[gang][]*corev1.Pod{}, map[gang]*corev1.Pod{}, 0
	for _, pod := range p.groupPods(name) {
		g := gangOf(pod, group)
		there[g] = pod
		switch at := p.placeOf(pod); {
		case at == placeBound:
			p.gangs.recordBinding(g, pod.UID, pod.Spec.NodeName, group.MinMember) // the pod may be older than its PodGroup
		case at == placeNone && len(pod.Spec.SchedulingGates) == 0:
			waiting[g] = append(waiting[g], pod)
			count++
		}
	}
	tried := map[string]*corev1.Pod{}
	all := count == 0 || p.mayActivateAll(name, count)
	for g, pods := range waiting {
		if all {
			p.gangs.changeKnown(g, (*phase.Gang).ClearRejection)
		} else {
			pods = pods[:min(len(pods), 1-len(tried))] // one member of all gangs together
		}
		for _, pod := range pods {
			tried[nameOf(pod).String()] = pod
		}
	}
	for g, pod := range there { // with a smaller minMember the gang may be whole, even if no member is queued
		p.releaseIfWhole(pod, group)
		p.dropEmptyGang(g)
	}
	if len(tried) > 0 {
		p.handle.Activate(klog.Background(), tried)
	}
}

// groupGone activates nominated members: without a PodGroup they go nowhere, and their nominations keep other pods out until they are tried.
func (p *Plugin) groupGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	group, ok := object.(*podgroup.Group)
	if !ok {
		return
	}
	nominated := map[string]*corev1.Pod{}
	for _, pod := range p.groupPods(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}) {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
			nominated[nameOf(pod).String()] = pod
		}
	}
	if len(nominated) > 0 {
		p.handle.Activate(klog.Background(), nominated)
	}
}

// releaseIfWhole admits the members waiting in Permit if their gang has become whole in the meantime.
func (p *Plugin) releaseIfWhole(pod *corev1.Pod, group *podgroup.Group) {
	g := gangOf(pod, group)
	if p.gangs.stateOf(g).Waiting == 0 || group.Problem != "" {
		return
	}
	if m := p.membersOf(pod, group); len(m.Placed)+countPlace(p.placeOf(pod)) >= group.MinMember {
		p.allowWaiting(g, 0)
	}
}

func countPlace(at place) int {
	if at == placeHeld || at == placeBound {
		return 1
	}
	return 0
}

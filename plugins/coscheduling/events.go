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
	"g8s.host/gpu-scheduler/pkg/hint"
)

// EventsToRegister names what can make room for a gang, and what can make it whole. Only members whom this plugin turned
// away wait for it. PodGroups are not among them: kube-scheduler would follow them with an informer of its own, for which
// it waits at its start, also where there are none. What follow does takes its place.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodeEvents := fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAnnotation
	podEvents := fwk.Add | fwk.Delete | fwk.UpdatePodLabel | fwk.UpdatePodScaleDown | fwk.UpdatePodToleration
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeEvents}, QueueingHintFn: p.afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: podEvents}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnChange},
	}, nil
}

// afterOwnChange queues a member that asks for something else than before, also by an annotation, of which kube-scheduler
// tells in no other way.
func afterOwnChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.Objects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint.QueueIf(before != nil && after != nil && after.UID == pod.UID && !alike(before, after)), nil
}

// afterNodeChange queues a member when a node that is open to it, or to one of its gang, has come or changed, unless more room there would
// not help. Of annotations the inventory alone says what there is room for.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.Objects[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil || before != nil && sameOffer(before, after) || !p.looksTo(pod, after) {
		return fwk.QueueSkip, nil
	}
	off := p.keptOff(pod)
	isNews := !off.inDomain(after) || before != nil && off.isMoved(before, after)
	return hint.QueueIf(isNews && p.GoesAhead(pod) && p.heedsNews(pod)), nil
}

// GoesAhead reports whether a member is the one of its gang that is tried when there may be room. If it gets a place, that
// has the others tried. So it costs others no more to have a large gang wait than a small one. Where that member has been
// deleted, or got a place, all are tried. A gang whose PodGroup is missing or cannot be read waits for its PodGroup, one whose members
// still come for the last of them. Members of a gang that stands are placed one by one, and wait each for itself.
func (p *Plugin) GoesAhead(pod *corev1.Pod) bool {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		return true
	}
	group := p.groups.get(name)
	if unusable(group) != "" || p.arrivals.keeps(name) {
		return false
	}
	g := gangOf(pod, group)
	scout := p.places.scoutOf(g)
	return p.places.stands(g, group.minMember) || scout == nameOf(pod) || !p.waits(scout, g, group)
}

// waits reports whether a pod is a member of a gang and has no place yet.
func (p *Plugin) waits(name types.NamespacedName, g gang, group *podGroup) bool {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok {
		return false
	}
	of, ok := p.groups.groupOf(pod)
	return ok && of == g.group && lives(pod) && gangOf(pod, group) == g && p.placeOf(pod) == none
}

// sameOffer reports whether nothing changed of what room counts.
func sameOffer(before, after *corev1.Node) bool {
	return before.Annotations[names.AnnotationInventory] == after.Annotations[names.AnnotationInventory] &&
		maps.Equal(before.Labels, after.Labels) && sameAmounts(before.Status.Allocatable, after.Status.Allocatable) &&
		before.Spec.Unschedulable == after.Spec.Unschedulable && slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// afterPodChange queues a member when a pod leaves a node that is open to it, or asks for less there; when a sibling has come or has got a
// place, and when the pod itself was changed. One that another plugin keeps out of free room is queued when a pod comes or goes by which
// that may change, wherever it is.
func (p *Plugin) afterPodChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.Objects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case before == nil && after == nil:
		return fwk.QueueSkip, nil
	case after == nil:
		if p.gaveUp(before) && (p.inSameGroup(before, pod) || !p.isTried(pod)) {
			return fwk.QueueSkip, nil
		}
		return hint.QueueIf(p.makesWay(before, pod) && p.GoesAhead(pod) && p.heedsNews(pod)), nil
	case before == nil:
		return hint.QueueIf((p.inSameGroup(after, pod) || p.keptOff(pod).isHelped(after)) && p.GoesAhead(pod) && p.heedsNews(pod)), nil
	}
	isNews := after.UID == pod.UID || (p.inSameGroup(after, pod) || p.yields(before, after, pod)) && p.GoesAhead(pod)
	return hint.QueueIf(isNews && p.heedsNews(pod)), nil
}

// keptOff is what keeps the gang of a member out that is not tried for now, nil where that is not known or not so.
func (p *Plugin) keptOff(member *corev1.Pod) *keptOff {
	name, ok := p.groups.groupOf(member)
	if group := p.groups.get(name); ok && group != nil {
		return p.places.keptOff(gangOf(member, group), p.now())
	}
	return nil
}

// makesWay reports whether a member may find a place since a pod is gone.
func (p *Plugin) makesWay(gone, member *corev1.Pod) bool {
	node := placeIn(gone)
	return node != "" && (p.keptOff(member).isInTheWay(gone) || p.leavesRoom(node, member))
}

// yields reports whether a member may find a place since a pod has changed that is on a node.
func (p *Plugin) yields(before, after, member *corev1.Pod) bool {
	if off := p.keptOff(member); off != nil && !maps.Equal(before.Labels, after.Labels) && (off.isInTheWay(before) || off.isHelped(after)) {
		return true
	}
	return p.leavesRoom(placeIn(after), member) && !slices.Equal(asked(before), asked(after))
}

// asked is what a pod asks of its node, in an order of its own.
func asked(pod *corev1.Pod) []cycle.Ask {
	return slices.SortedFunc(slices.Values(cycle.AsksOf(pod)), func(a, b cycle.Ask) int { return cmp.Compare(a.Resource, b.Resource) })
}

// placeIn is the node that a pod is on, or that is kept for it, "" for none.
func placeIn(pod *corev1.Pod) string { return cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName) }

// inSameGroup reports whether two pods are members of one group.
func (p *Plugin) inSameGroup(a, b *corev1.Pod) bool {
	first, ok := p.groups.groupOf(a)
	second, _ := p.groups.groupOf(b)
	return ok && first == second
}

// looksTo reports whether a node is open to a member, or to another one of its gang that it is tried for.
func (p *Plugin) looksTo(member *corev1.Pod, node *corev1.Node) bool {
	if isOpenTo(node, member) {
		return true
	}
	name, ok := p.groups.groupOf(member)
	group := p.groups.get(name)
	if !ok || group == nil {
		return false
	}
	all := p.places.seekersOf(gangOf(member, group))
	return all.lookTo(node)
}

// leavesRoom reports whether room on a node may be what a member lacks, or another one of its gang.
func (p *Plugin) leavesRoom(at string, member *corev1.Pod) bool {
	node, err := p.nodes.Get(at)
	return err == nil && p.looksTo(member, node) && !p.keptOff(member).from(node)
}

// gaveUp reports whether a pod is there still that is said to have left its node: it only lost its place in this
// scheduler. To its siblings that is no news, and they would wake each other up forever; so would gangs that are kept out.
func (p *Plugin) gaveUp(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && there.Spec.NodeName == ""
}

// follow keeps in step with pods that get their places from others, and with PodGroups.
func (p *Plugin) follow(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.podChanged(object) },
		UpdateFunc: func(old, object any) {
			before, _ := old.(*corev1.Pod)
			after, _ := object.(*corev1.Pod)
			p.leavesGroup(before, after)
			p.revised(before, after)
			p.podChanged(object)
		},
		DeleteFunc: p.podGone,
	})
	if err != nil {
		return fmt.Errorf("following pods: %w", err)
	}
	_, err = p.groups.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.groupChanged(nil, object) },
		UpdateFunc: func(old, object any) {
			before, _ := old.(*podGroup)
			p.groupChanged(before, object)
		},
		DeleteFunc: p.groupGone,
	})
	if err != nil {
		return fmt.Errorf("following PodGroups: %w", err)
	}
	for _, ofKind := range p.groups.workloads {
		for _, of := range ofKind {
			if err := p.followWorkloads(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// leavesGroup heeds a pod that is of another PodGroup now than before, or ends.
func (p *Plugin) leavesGroup(before, after *corev1.Pod) {
	if before == nil || after == nil || !lives(before) {
		return
	}
	if !lives(after) || !p.inSameGroup(before, after) {
		p.tidyGroups(before)
	}
}

// podChanged notes a member that is bound, whoever bound it: the gang may be whole by that.
func (p *Plugin) podChanged(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	name, ok := p.groups.groupOf(pod)
	if pod.Spec.NodeName == "" {
		return
	}
	p.turns.leave(pod.UID, p.now())
	if !lives(pod) && pkggang.MayBeMember(pod) {
		p.forget(pod)
		return
	}
	if !ok {
		p.forgetAlone(pod)
		return
	}
	if group := p.groups.get(name); group != nil {
		p.places.boundOf(gangOf(pod, group), pod.UID, pod.Spec.NodeName, group.minMember)
		p.reconsider(pod, group)
	}
	p.decided(name)
}

// Gone drops what is kept of a pod that is gone, where no informer tells of that.
func (p *Plugin) Gone(pod *corev1.Pod) { p.forget(pod) }

func (p *Plugin) podGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		p.forget(pod)
	}
}

// forget drops what is kept of a member that is gone, and of its gang with the last: also of one that never had a place.
// Whether its gang has one owner is not asked, as its PodGroup may be gone before it.
func (p *Plugin) forget(pod *corev1.Pod) {
	p.turns.leave(pod.UID, p.now())
	if g, ok := p.places.forget(pod.UID); ok {
		if group := p.groups.get(g.group); unusable(group) == "" && wasPreempted(pod) {
			p.places.tear(g, group.minMember)
		}
		p.tidy(g)
	}
	if _, ok := p.groups.groupOf(pod); !ok {
		p.promises.End(string(pod.UID))
		p.forgetAlone(pod)
	}
	p.tidyGroups(pod)
	for _, name := range pkggang.NamesFor(pod) {
		p.decided(name)
	}
}

// tidyGroups drops what is kept of the gangs that a pod may have been in, where it was the last of them: the object that says which it was may be gone
// before its pods, or have become one that makes no gang.
func (p *Plugin) tidyGroups(pod *corev1.Pod) {
	for _, name := range pkggang.NamesFor(pod) {
		p.tidy(gang{group: name})
		p.tidy(gang{group: name, owner: ownerOf(pod)})
		p.forgetArrivals(name)
	}
}

// groupChanged has the members tried that waited for the PodGroup, or for what it says now.
func (p *Plugin) groupChanged(before *podGroup, object any) {
	group, ok := object.(*podGroup)
	if !ok || before != nil && before.sameRules(group) {
		return
	}
	name := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	p.arrivals.recount(name)
	waiting, there, count := map[gang][]*corev1.Pod{}, map[gang]*corev1.Pod{}, 0
	for _, pod := range p.podsOf(name) {
		g := gangOf(pod, group)
		there[g] = pod
		switch at := p.placeOf(pod); {
		case at == bound:
			p.places.boundOf(g, pod.UID, pod.Spec.NodeName, group.minMember) // it may be older than its PodGroup
		case at == none && len(pod.Spec.SchedulingGates) == 0:
			waiting[g] = append(waiting[g], pod)
			count++
		}
	}
	tried := map[string]*corev1.Pod{}
	all := count == 0 || p.mayWake(name, count)
	for g, pods := range waiting {
		if all {
			p.places.comeIn(g)
		} else {
			pods = pods[:min(len(pods), 1-len(tried))] // one of all gangs
		}
		for _, pod := range pods {
			tried[nameOf(pod).String()] = pod
		}
	}
	for g, pod := range there { // with fewer members it may be whole, also where none waits in the queue
		p.reconsider(pod, group)
		p.tidy(g)
	}
	if len(tried) > 0 {
		p.handle.Activate(klog.Background(), tried)
	}
}

// groupGone has those tried that others have left places for: they go nowhere without a PodGroup, and keep others from there until they
// are told.
func (p *Plugin) groupGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	group, ok := object.(*podGroup)
	if !ok {
		return
	}
	nominated := map[string]*corev1.Pod{}
	for _, pod := range p.podsOf(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}) {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
			nominated[nameOf(pod).String()] = pod
		}
	}
	if len(nominated) > 0 {
		p.handle.Activate(klog.Background(), nominated)
	}
}

// reconsider lets those go on that wait, if by what has happened meanwhile their gang is whole.
func (p *Plugin) reconsider(pod *corev1.Pod, group *podGroup) {
	g := gangOf(pod, group)
	if p.places.waitingOf(g) == 0 || group.problem != "" {
		return
	}
	if m := p.membersOf(pod, group); len(m.placed)+here(p.placeOf(pod)) >= group.minMember {
		p.letGo(g, 0)
	}
}

func here(at place) int {
	if at == held || at == bound {
		return 1
	}
	return 0
}

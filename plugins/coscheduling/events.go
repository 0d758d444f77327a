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
	before, after, err := hint.Objects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint.QueueIf(before != nil && after != nil && after.UID == pod.UID && !alike(before, after)), nil
}

// afterNodeChange queues a member when a node that is open to it, or to a sibling, is added or changed, unless more room there would not help.
// The inventory is the only annotation that affects room.
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

// GoesAhead reports whether a member is the representative that is tried for its gang when there may be room. If it gets a place, the
// others are activated, so a large waiting gang costs no more than a small one. If the representative was deleted, or has a place, all members
// are tried. A gang whose PodGroup is missing or malformed waits for the PodGroup, and an incomplete gang for its last member. Members of a
// complete gang are placed one by one, and each waits for itself.
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

// waits reports whether a pod is a member of a gang without a place.
func (p *Plugin) waits(name types.NamespacedName, g gang, group *podGroup) bool {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok {
		return false
	}
	of, ok := p.groups.groupOf(pod)
	return ok && of == g.group && lives(pod) && gangOf(pod, group) == g && p.placeOf(pod) == none
}

// sameOffer reports whether nothing changed that affects room.
func sameOffer(before, after *corev1.Node) bool {
	return before.Annotations[names.AnnotationInventory] == after.Annotations[names.AnnotationInventory] &&
		maps.Equal(before.Labels, after.Labels) && sameAmounts(before.Status.Allocatable, after.Status.Allocatable) &&
		before.Spec.Unschedulable == after.Spec.Unschedulable && slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// afterPodChange queues a member when a pod leaves a node that is open to it or requests less there, when a sibling arrives or gets a place, and
// when the pod itself changes. A member that another plugin keeps out of free room is queued when a pod that may matter comes or goes, wherever
// it is.
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

// keptOff returns what blocks the gang of a member that is not tried for now, nil if nothing does or it is not known.
func (p *Plugin) keptOff(member *corev1.Pod) *keptOff {
	name, ok := p.groups.groupOf(member)
	if group := p.groups.get(name); ok && group != nil {
		return p.places.keptOff(gangOf(member, group), p.now())
	}
	return nil
}

// makesWay reports whether a member may find a place because a pod is gone.
func (p *Plugin) makesWay(gone, member *corev1.Pod) bool {
	node := placeIn(gone)
	return node != "" && (p.keptOff(member).isInTheWay(gone) || p.leavesRoom(node, member))
}

// yields reports whether a member may find a place because a pod on a node has changed.
func (p *Plugin) yields(before, after, member *corev1.Pod) bool {
	if off := p.keptOff(member); off != nil && !maps.Equal(before.Labels, after.Labels) && (off.isInTheWay(before) || off.isHelped(after)) {
		return true
	}
	return p.leavesRoom(placeIn(after), member) && !slices.Equal(asked(before), asked(after))
}

// asked returns the requests of a pod, sorted.
func asked(pod *corev1.Pod) []cycle.Ask {
	return slices.SortedFunc(slices.Values(cycle.AsksOf(pod)), func(a, b cycle.Ask) int { return cmp.Compare(a.Resource, b.Resource) })
}

// placeIn returns the node of a pod, or its nominated node, "" for none.
func placeIn(pod *corev1.Pod) string { return cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName) }

// inSameGroup reports whether two pods are members of the same group.
func (p *Plugin) inSameGroup(a, b *corev1.Pod) bool {
	first, ok := p.groups.groupOf(a)
	second, _ := p.groups.groupOf(b)
	return ok && first == second
}

// looksTo reports whether a node is open to a member, or to a sibling that it represents.
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

// leavesRoom reports whether room on a node may be what a member, or a sibling, lacks.
func (p *Plugin) leavesRoom(at string, member *corev1.Pod) bool {
	node, err := p.nodes.Get(at)
	return err == nil && p.looksTo(member, node) && !p.keptOff(member).from(node)
}

// gaveUp reports whether a pod that is reported to have left its node still exists: it only lost its place in this scheduler. Its
// siblings must not be woken, or they would wake each other up forever; the same holds for rejected gangs.
func (p *Plugin) gaveUp(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && there.Spec.NodeName == ""
}

// follow watches pods that other schedulers place, and PodGroups.
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

// leavesGroup handles a pod that changes its PodGroup, or ends.
func (p *Plugin) leavesGroup(before, after *corev1.Pod) {
	if before == nil || after == nil || !lives(before) {
		return
	}
	if !lives(after) || !p.inSameGroup(before, after) {
		p.tidyGroups(before)
	}
}

// podChanged records a bound member, whichever scheduler bound it: that may complete the gang.
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

// Gone drops the state of a pod that is gone, where no informer reports that.
func (p *Plugin) Gone(pod *corev1.Pod) { p.forget(pod) }

func (p *Plugin) podGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		p.forget(pod)
	}
}

// forget drops the state of a member that is gone, and of its gang with the last member, even if it never had a place. It does not check
// whether the gang has one owner, because the PodGroup may be gone before its pods.
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

// tidyGroups drops the state of the gangs that a pod may have belonged to, if it was the last member. The object that determined the gang may be
// gone before its pods, or may no longer form a gang.
func (p *Plugin) tidyGroups(pod *corev1.Pod) {
	for _, name := range pkggang.NamesFor(pod) {
		p.tidy(gang{group: name})
		p.tidy(gang{group: name, owner: ownerOf(pod)})
		p.forgetArrivals(name)
	}
}

// groupChanged activates the members that waited for the PodGroup, or for its new content.
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
			p.places.boundOf(g, pod.UID, pod.Spec.NodeName, group.minMember) // the pod may be older than its PodGroup
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
			pods = pods[:min(len(pods), 1-len(tried))] // one member of all gangs together
		}
		for _, pod := range pods {
			tried[nameOf(pod).String()] = pod
		}
	}
	for g, pod := range there { // with a smaller minMember the gang may be whole, even if no member is queued
		p.reconsider(pod, group)
		p.tidy(g)
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

// reconsider admits the members waiting in Permit if their gang has become whole in the meantime.
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

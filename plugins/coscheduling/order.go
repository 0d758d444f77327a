package coscheduling

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Less sorts pods by priority. Next come members of gangs that have begun to take places, so that no other pod takes the places of their
// siblings, and pods that replace others which left after a preemption notice. Then comes the pod that is called because its namespace is next
// (plugins/turns.go). The rest is sorted by time: for a pod when it entered the queue, for a member the time of its PodGroup, so that gangs stay
// together. A failed attempt resets the time of either, so that pods without room do not block the queue. The members of a gang come in the
// order in which their places were planned: with topology spread constraints, another order may not have places for all.
//
// The queue is a heap, which stays out of order if the sort key of a queued pod changes. So the mutable state of a gang counts as of when the
// pod entered the queue.
//
// A PodGroup of Kubernetes, which its scheduler tries as a whole, has no position of Coscheduling: it is sorted by priority and time.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return p.less(podIn(a), podIn(b), p.rankOf(a), p.rankOf(b))
}

// podIn returns the queued pod, nil for a PodGroup of Kubernetes.
func podIn(entity fwk.QueuedEntityInfo) *corev1.Pod {
	if info, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok {
		return info.GetPodInfo().GetPod()
	}
	return nil
}

func (p *Plugin) less(a, b *corev1.Pod, first, second rank) bool {
	if first.priority != second.priority {
		return first.priority > second.priority
	}
	if first.begun != second.begun {
		return first.begun
	}
	if first.resumes != second.resumes {
		return first.resumes
	}
	if called := p.turns.called.Load(); called != nil {
		if one, other := a == called, b == called; one != other {
			return one
		}
	}
	order := cmp.Or(first.at.Compare(second.at), cmp.Compare(first.namespace, second.namespace), cmp.Compare(first.group, second.group))
	if order == 0 && first.group != "" {
		order = compareRanks(a, b)
	}
	return cmp.Or(order, cmp.Compare(first.name, second.name)) < 0
}

// PreEnqueue records the position of a pod that enters the queue. It holds a member out while its gang is incomplete, or while another plugin
// has just rejected the gang. The queue is locked during the call: activating other pods from here would deadlock.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 && p.isThere(pod) {
		p.turns.comes(pod, p.now())
	}
	as := p.turnOf(pod)
	as.resumes = p.resumes(pod)
	name, member := p.groups.groupOf(pod)
	if member || as.resumes {
		p.turns.enqueue(pod.UID, &as)
	} else {
		p.turns.enqueue(pod.UID, nil)
	}
	if !member {
		return nil
	}
	if !p.isThere(pod) { // a stale event, which is not repeated
		p.turns.leave(pod.UID, p.now())
		return nil
	}
	if status := p.arrives(pod, name); !status.IsSuccess() {
		return status
	}
	if why := p.isOutside(pod, name); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// turnOf returns the current position of a pod's gang.
func (p *Plugin) turnOf(pod *corev1.Pod) turn {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		return turn{}
	}
	group := p.groups.get(name)
	if unusable(group) != "" {
		return turn{}
	}
	g := gangOf(pod, group)
	t := turn{begun: p.places.begun(g, group.minMember), at: since(pod, group)}
	if failed := p.places.failed(g); !failed.IsZero() {
		t.at = failed
	}
	for _, of := range []gang{g, {group: g.group}} { // changes of a PodGroup must not delay other pods
		if rests := p.places.restsUntil(of); rests.After(t.at) {
			t.at = rests
		}
	}
	return t
}

// headStart is the most that a PodGroup may be older than a member and still set its time.
const headStart = time.Hour

// since returns the time that a member is queued by: the creation of its PodGroup, so that the gang stays together. If the PodGroup is much
// older than its pods, it is the hour in which the pod was created, which also keeps them together. Otherwise users who keep old PodGroups would
// come before everyone else.
func since(pod *corev1.Pod, group *podGroup) time.Time {
	if pod.CreationTimestamp.Sub(group.CreationTimestamp.Time) > headStart {
		return pod.CreationTimestamp.Truncate(headStart)
	}
	return group.CreationTimestamp.Time
}

// rank is the sort key of a pod in the queue.
type rank struct {
	turn
	priority               int32
	namespace, group, name string
}

func (p *Plugin) rankOf(info fwk.QueuedEntityInfo) rank {
	at := info.GetTimestamp() // when it was added, or its last attempt failed
	if came := info.GetInitialAttemptTimestamp(); came != nil && came.After(at) {
		at = *came // it was gated until then
	}
	if pod := podIn(info); pod != nil {
		return p.rankSince(pod, &at)
	}
	r := rank{priority: info.GetPriority(), turn: turn{at: at}}
	if group, ok := info.(klog.KMetadata); ok {
		r.namespace, r.name = group.GetNamespace(), group.GetName()
	}
	return r
}

// rankSince returns the sort key of a pod that entered the queue at a time, nil if it has not.
func (p *Plugin) rankSince(pod *corev1.Pod, came *time.Time) rank {
	r := rank{priority: corev1helpers.PodPriority(pod), namespace: pod.Namespace, name: pod.Name}
	group, member := p.groups.groupOf(pod)
	if member {
		r.group = group.Name
	}
	var noted bool
	if r.turn, noted = p.turns.of(pod.UID); member && !noted { // a profile that enables this plugin for queueSort alone
		r.turn = p.turnOf(pod)
	}
	if came != nil && r.at.IsZero() {
		r.at = *came
	}
	return r
}

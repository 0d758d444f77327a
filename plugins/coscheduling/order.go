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

// Less sorts pods by priority, then members of gangs that have begun to take places, so that nobody takes those of their
// siblings, and those that come in the place of pods which left when they were told to; then the one whose namespace's turn it is, if
// one is called (plugins/turns.go). Then by time: of a pod when it came to the queue, of a member its PodGroup's, so that gangs stand together; of
// both that of the last attempt, if there was one, so that whoever has no room does not keep others waiting behind it. The members of a gang come
// in the order in which their places were planned: where topology spread counts, another order may have no places for all.
//
// The queue is a heap, which is out of order for good once what it compares changes for a pod that is in it. So what can
// change of a gang counts as it was when the pod was put there.
//
// A PodGroup of Kubernetes, which its scheduler tries as a whole, has no turn of Coscheduling: it stands by its priority and its time.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return p.less(podIn(a), podIn(b), p.rankOf(a), p.rankOf(b))
}

// podIn is the pod that is queued, nil for a PodGroup of Kubernetes.
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

// PreEnqueue notes how a pod stands that is put in the queue, and keeps a member out while others of its gang still come, or another plugin
// kept one out a moment ago. The queue is
// locked meanwhile: who has others tried from here waits for ever.
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
	if !p.isThere(pod) { // an event of the past: nobody else tells of it again
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

// turnOf is how the gang of a pod stands now.
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
	for _, of := range []gang{g, {group: g.group}} { // who writes to a PodGroup keeps no others waiting
		if rests := p.places.restsUntil(of); rests.After(t.at) {
			t.at = rests
		}
	}
	return t
}

// headStart is how long before a member its PodGroup counts at most.
const headStart = time.Hour

// since is from when on a member is in line: since its PodGroup was made, as all of its gang. A PodGroup from long before its pods counts
// from the hour in which they were made, so that they still stand together: else who keeps old ones comes before everybody else
// whenever they are used.
func since(pod *corev1.Pod, group *podGroup) time.Time {
	if pod.CreationTimestamp.Sub(group.CreationTimestamp.Time) > headStart {
		return pod.CreationTimestamp.Truncate(headStart)
	}
	return group.CreationTimestamp.Time
}

// rank is a pod's position in the queue.
type rank struct {
	turn
	priority               int32
	namespace, group, name string
}

func (p *Plugin) rankOf(info fwk.QueuedEntityInfo) rank {
	at := info.GetTimestamp() // when it was made known, or its last attempt failed
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

// rankSince is the rank of a pod that came to the queue last at some time, nil for one that has not.
func (p *Plugin) rankSince(pod *corev1.Pod, came *time.Time) rank {
	r := rank{priority: corev1helpers.PodPriority(pod), namespace: pod.Namespace, name: pod.Name}
	group, member := p.groups.groupOf(pod)
	if member {
		r.group = group.Name
	}
	var noted bool
	if r.turn, noted = p.turns.of(pod.UID); member && !noted { // a profile that names this plugin for queueSort alone
		r.turn = p.turnOf(pod)
	}
	if came != nil && r.at.IsZero() {
		r.at = *came
	}
	return r
}

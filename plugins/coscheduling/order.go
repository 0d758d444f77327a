package coscheduling

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Less sorts pods by priority, then members of gangs that have begun to take places, so that nobody takes those of their
// siblings, and those that come in the place of pods which left when they were told to. Then by time: of a pod its own, of a member its PodGroup's, so that gangs stand together, or that of the last
// attempt, so that a gang without room does not keep others waiting behind it. The members of a gang come in the order in
// which their places were planned: where topology spread counts, another order may have no places for all.
//
// The queue is a heap, which is out of order for good once what it compares changes for a pod that is in it. So what can
// change of a gang counts as it was when the pod was put there.
func (p *Plugin) Less(a, b fwk.QueuedPodInfo) bool {
	first, second := p.rankOf(a), p.rankOf(b)
	if first.priority != second.priority {
		return first.priority > second.priority
	}
	if first.begun != second.begun {
		return first.begun
	}
	if first.resumes != second.resumes {
		return first.resumes
	}
	order := cmp.Or(first.at.Compare(second.at), cmp.Compare(first.namespace, second.namespace), cmp.Compare(first.group, second.group))
	if order == 0 && first.group != "" {
		order = compareRanks(a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod())
	}
	return cmp.Or(order, cmp.Compare(first.name, second.name)) < 0
}

// PreEnqueue notes how the gang of a member stands that is put in the queue, and keeps it out while the others still come.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	p.resumptions.enqueue(pod, p.now())
	name, ok := groupOf(pod)
	if !ok {
		return nil
	}
	p.places.enqueue(pod.UID, p.turnOf(pod))
	p.forgetGone(pod)
	return p.arrives(pod, name)
}

// turn is what of a pod's position in the queue depends on its gang.
type turn struct {
	begun bool
	// at is the gang's time, zero for that of the pod.
	at time.Time
}

// turnOf is how the gang of a pod stands now.
func (p *Plugin) turnOf(pod *corev1.Pod) turn {
	name, ok := groupOf(pod)
	if !ok {
		return turn{}
	}
	group := p.groups.get(name)
	if unusable(group) != "" {
		return turn{}
	}
	g := gangOf(pod, group)
	t := turn{begun: p.places.begun(g, group.minMember), at: group.CreationTimestamp.Time}
	if failed := p.places.failed(g); !failed.IsZero() {
		t.at = failed
	}
	if rests := p.places.restsUntil(g); rests.After(t.at) { // who writes to a PodGroup keeps no others waiting
		t.at = rests
	}
	return t
}

// rank is a pod's position in the queue.
type rank struct {
	turn
	resumes                bool
	priority               int32
	namespace, group, name string
}

func (p *Plugin) rankOf(info fwk.QueuedPodInfo) rank {
	pod := info.GetPodInfo().GetPod()
	r := rank{priority: corev1helpers.PodPriority(pod), namespace: pod.Namespace, name: pod.Name, resumes: p.resumptions.has(pod.UID)}
	if group, ok := groupOf(pod); ok {
		r.group = group.Name
		if r.turn, ok = p.places.turn(pod.UID); !ok { // a profile that names this plugin for queueSort alone
			r.turn = p.turnOf(pod)
		}
	}
	if at := info.GetInitialAttemptTimestamp(); at != nil && r.at.IsZero() {
		r.at = *at
	}
	return r
}

// enqueue notes the turn of a pod that is put in the queue.
func (p *places) enqueue(pod types.UID, t turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns == nil {
		p.turns = map[types.UID]turn{}
	}
	p.turns[pod] = t
}

// turn returns that of a pod as it was put in the queue.
func (p *places) turn(pod types.UID) (turn, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	t, ok := p.turns[pod]
	return t, ok
}

// leave forgets the turn of a pod that comes to the queue no more.
func (p *places) leave(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.turns, pod)
}

package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/minruntime"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// maxEvictionAttempts is how often a single pod may try to evict victims whose time is over, before other victims are considered instead.
const maxEvictionAttempts = 3

// planNotices returns the preemption notices for victims, nil if they are evicted at once: none of them except borrowers asks for time to save its
// work, or the preemptor is a service of the cluster.
func (p *Plugin) planNotices(victims []*corev1.Pod, by notice.Preemptor, priority int32, borrow sets.Set[types.UID]) map[types.UID]notice.Notice {
	if !minruntime.AppliesTo(priority) {
		return nil
	}
	told := make([]notice.Victim, len(victims))
	for i, pod := range victims {
		told[i] = notice.Victim{Pod: pod}
		if !borrow.Has(pod.UID) { // borrowed GPUs are returned at once
			told[i].Grace = p.graceOf(pod)
		}
		if before, ok := p.preemptions.NoticeOn(pod.UID); ok {
			told[i].Before = &before
		}
	}
	return notice.PlanNotices(told, by, p.now())
}

// graceOf returns how long a pod has to save its work before its eviction. A pod that does not run yet has nothing to save, and in a replay
// nothing happens when the time is over.
func (p *Plugin) graceOf(pod *corev1.Pod) time.Duration {
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if err != nil || p.replay || pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	return p.pools.GracesOf(gpu.PoolOf(node)).GraceFor(pod.Annotations)
}

// evictOrNotify evicts the victims of a gang, or notifies them first, if they ask for that and were not notified yet. It returns the message
// for the pod.
func (p *Plugin) evictOrNotify(g gang, move *preemptionCandidate, members []*corev1.Pod, pod *corev1.Pod, told bool) (why string) {
	by := gangAsPreemptor(g, pod)
	if told {
		p.writeWithdrawals(p.preemptions.SpareOthers(by.Key(), move.victims))
	} else {
		move.notices = p.planNotices(move.victims, by, lowestPriority(members), move.borrowers)
	}
	if move.notices == nil {
		p.gangs.changeState(g, func(s *phase.Gang) { s.RecordEvictions(p.now()) })
	} else {
		p.preemptions.BeginPreemption(by, move.victims, move.notices, move.to)
		p.requeuePreemptor(by.Key())
		until, _ := p.noticeStatus(by.Key())
		why = roomComingMessage(until)
	}
	p.executePreemption(g, move, members, pod)
	return why
}

// lowestPriority is the lowest priority of some pods.
func lowestPriority(pods []*corev1.Pod) int32 {
	priority := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods {
		priority = min(priority, corev1helpers.PodPriority(pod))
	}
	return priority
}

func gangAsPreemptor(g gang, member *corev1.Pod) notice.Preemptor {
	return notice.Preemptor{Namespace: g.group.Namespace, Group: g.group.Name, UID: g.owner, Pod: member.Name}
}

func podAsPreemptor(pod *corev1.Pod) notice.Preemptor {
	return notice.Preemptor{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
}

func preemptorKey(g gang) notice.Key {
	return notice.Key{Namespace: g.group.Namespace, Group: g.group.Name, UID: g.owner}
}

// noticeStatus returns the state of a preemptor's notified victims: until when they have time at most, the zero time if their time is over, and the
// victims that are still there, nil for none.
func (p *Plugin) noticeStatus(key notice.Key) (until time.Time, due sets.Set[types.UID]) {
	now := p.now()
	for uid, told := range p.preemptions.NotifiedVictims(key) {
		pod := p.livePod(told.Name, uid)
		if pod == nil {
			continue
		}
		if due == nil {
			due = sets.New[types.UID]()
		}
		due.Insert(uid)
		if told.IsPending(pod, now) && told.Until.After(until) {
			until = told.Until
		}
	}
	return until, due
}

// livePod returns the current version of a live pod, nil if it is gone.
func (p *Plugin) livePod(name types.NamespacedName, uid types.UID) *corev1.Pod {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok || pod.UID != uid || !isLive(pod) {
		return nil
	}
	return pod
}

// awaitNotified returns the node for a member whose gang has notified victims, and the message that it waits for them. If their time is over, it
// returns them as the only allowed victims.
func (p *Plugin) awaitNotified(g gang, pod *corev1.Pod) (node, why string, due sets.Set[types.UID]) {
	until, due := p.noticeStatus(preemptorKey(g))
	if until.IsZero() {
		return "", "", due
	}
	if node = p.preemptions.MemberNode(preemptorKey(g), pod.UID); node == "" {
		node = pod.Status.NominatedNodeName
	}
	return node, roomComingMessage(until), due
}

func roomComingMessage(until time.Time) string {
	return reason.EvictionPending.Text.FormatText(until.UTC().Format(time.RFC3339))
}

// nominatedStatus is the status of a pod that has a nominated node after a preemption.
func nominatedStatus(why string) *fwk.Status {
	if why == "" {
		return nil
	}
	return fwk.NewStatus(fwk.Success, why)
}

// abandonNotices withdraws notices whose preemption no longer helps, and has the gang search for other victims.
func (p *Plugin) abandonNotices(g gang, m *placement.Members) {
	p.withdrawNotices(preemptorKey(g))
	p.nominateMembers(m.Waiting, nil)
	p.gangs.planAttempt(g, phase.NoticesWithdrawn, p.now().Add(phase.FirstWriteRetry))
}

// PreemptionHoldReason returns why a pod evicts nothing for now: victims are leaving for it, or were notified and have time to save their work,
// or the pod was refused its last place. It returns "" if the pod may preempt. lost says that the pod can no longer go where the victims are.
func (p *Plugin) PreemptionHoldReason(pod *corev1.Pod, lost bool) string {
	if !lost && p.areBorrowersLeaving(pod) {
		return "not eligible due to a terminating pod on the nominated node." // as kube-scheduler has it
	}
	if why := p.lostPlaceReason(pod); why != "" {
		return why
	}
	if p.preemptions.IsEmpty() {
		return ""
	}
	key := podAsPreemptor(pod).Key()
	until, due := p.noticeStatus(key)
	switch {
	case due == nil:
		p.preemptions.DropPreemption(key)
	case lost:
		p.withdrawNotices(key)
	case !until.IsZero():
		return roomComingMessage(until)
	case p.preemptions.CountAttempt(key) > maxEvictionAttempts:
		p.withdrawNotices(key)
	}
	return ""
}

// HasNotified reports whether victims were notified for a pod.
func (p *Plugin) HasNotified(pod *corev1.Pod) bool {
	return p.preemptions.HasPreemption(podAsPreemptor(pod).Key())
}

// NotifyVictim reports whether a victim of a pod is notified and stays for now, or stays for good because the pod no longer waits. all are the
// victims of the pod.
func (p *Plugin) NotifyVictim(ctx context.Context, preemptor, victim *corev1.Pod, all []*corev1.Pod) (stays bool, err error) {
	by := podAsPreemptor(preemptor)
	key := by.Key()
	if p.PendingPod(preemptor) == nil { // it is gone or bound by now
		p.withdrawNotices(key)
		return true, nil
	}
	p.preemptions.Planning.Lock() // this is called concurrently for each victim
	due := p.preemptions.IsDue(key)
	if due {
		p.writeWithdrawals(p.preemptions.SpareOthers(key, all))
	} else if p.preemptions.NotifiedVictims(key) == nil {
		if told := p.planNotices(all, by, corev1helpers.PodPriority(preemptor), nil); told != nil {
			p.preemptions.BeginPreemption(by, all, told, nil)
			p.requeuePreemptor(key)
		}
	}
	p.preemptions.Planning.Unlock()
	if _, told := p.preemptions.NotifiedVictims(key)[victim.UID]; due || !told {
		return false, nil
	}
	if err := p.writeNotice(ctx, nameOf(victim), victim.UID); err != nil {
		p.withdrawNotices(key)
		return true, err
	}
	return true, nil
}

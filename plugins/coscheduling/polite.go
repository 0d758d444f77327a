package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/minruntime"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// mostAttempts is how often a single pod may try to evict victims whose time is over, before other victims are considered instead.
const mostAttempts = 3

// announce returns the preemption notices for victims, nil if they are evicted at once: none of them except borrowers asks for time to save its
// work, or the preemptor is a service of the cluster.
func (p *Plugin) announce(victims []*corev1.Pod, by notice.Preemptor, priority int32, borrow sets.Set[types.UID]) map[types.UID]notice.Notice {
	if !minruntime.Binds(priority) {
		return nil
	}
	told := make([]notice.Victim, len(victims))
	for i, pod := range victims {
		told[i] = notice.Victim{Pod: pod}
		if !borrow.Has(pod.UID) { // borrowed GPUs are returned at once
			told[i].Grace = p.graceOf(pod)
		}
		if before, ok := p.notices.onPod(pod.UID); ok {
			told[i].Before = &before
		}
	}
	return notice.Plan(told, by, p.now())
}

// graceOf returns how long a pod has to save its work before its eviction. A pod that does not run yet has nothing to save, and in a replay
// nothing happens when the time is over.
func (p *Plugin) graceOf(pod *corev1.Pod) time.Duration {
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if err != nil || p.replay || pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	return p.pools.graces(gpu.PoolOf(node)).Of(pod.Annotations)
}

// clear evicts the victims of a gang, or notifies them first, if they ask for that and were not notified yet. It returns the message
// for the pod.
func (p *Plugin) clear(g gang, move *clearance, members []*corev1.Pod, pod *corev1.Pod, told bool) (why string) {
	by := gangAsPreemptor(g, pod)
	if told {
		p.publish(p.notices.keep(by.Key(), move.victims))
	} else {
		move.told = p.announce(move.victims, by, lowest(members), move.borrow)
	}
	if move.told == nil {
		p.places.clear(g, p.now().Add(settling))
	} else {
		p.notices.begin(by, move.victims, move.told, move.to)
		p.look(by.Key())
		until, _ := p.heed(by.Key())
		why = comesBy(until)
	}
	p.carryOut(g, move, members, pod)
	return why
}

// lowest is the lowest priority of some pods.
func lowest(pods []*corev1.Pod) int32 {
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

func keyOf(g gang) notice.Key {
	return notice.Key{Namespace: g.group.Namespace, Group: g.group.Name, UID: g.owner}
}

// heed returns the state of a preemptor's notified victims: until when they have time at most, the zero time if their time is over, and the
// victims that are still there, nil for none.
func (p *Plugin) heed(key notice.Key) (until time.Time, due sets.Set[types.UID]) {
	now := p.now()
	for uid, told := range p.notices.victims(key) {
		pod := p.living(told.name, uid)
		if pod == nil {
			continue
		}
		if due == nil {
			due = sets.New[types.UID]()
		}
		due.Insert(uid)
		if told.Holds(pod, now) && told.Until.After(until) {
			until = told.Until
		}
	}
	return until, due
}

// living returns the current version of a live pod, nil if it is gone.
func (p *Plugin) living(name types.NamespacedName, uid types.UID) *corev1.Pod {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok || pod.UID != uid || !lives(pod) {
		return nil
	}
	return pod
}

// waitsFor returns the node for a member whose gang has notified victims, and the message that it waits for them. If their time is over, it
// returns them as the only allowed victims.
func (p *Plugin) waitsFor(g gang, pod *corev1.Pod) (node, why string, due sets.Set[types.UID]) {
	until, due := p.heed(keyOf(g))
	if until.IsZero() {
		return "", "", due
	}
	if node = p.notices.placeOf(keyOf(g), pod.UID); node == "" {
		node = pod.Status.NominatedNodeName
	}
	return node, comesBy(until), due
}

func comesBy(until time.Time) string {
	return reason.RoomIsComing.Text.Of(until.UTC().Format(time.RFC3339))
}

// saying is the status of a pod that has a nominated node after a preemption.
func saying(why string) *fwk.Status {
	if why == "" {
		return nil
	}
	return fwk.NewStatus(fwk.Success, why)
}

// changesItsMind withdraws notices whose preemption no longer helps, and has the gang search for other victims.
func (p *Plugin) changesItsMind(g gang, group *podGroup, m *members) {
	p.withdraw(keyOf(g))
	p.nominate(m.waiting, nil)
	p.wakeAt(g, group, p.now().Add(again), p.GoesAhead)
}

// Awaits returns why a pod evicts nothing for now: victims are leaving for it, or were notified and have time to save their work,
// or the pod was refused its last place. It returns "" if the pod may preempt. lost says that the pod can no longer go where the victims are.
func (p *Plugin) Awaits(pod *corev1.Pod, lost bool) string {
	if !lost && p.borrowersLeave(pod) {
		return "not eligible due to a terminating pod on the nominated node." // as kube-scheduler has it
	}
	if why := p.refusedTo(pod); why != "" {
		return why
	}
	if p.notices.isEmpty() {
		return ""
	}
	key := podAsPreemptor(pod).Key()
	until, due := p.heed(key)
	switch {
	case due == nil:
		p.notices.drop(key)
	case lost:
		p.withdraw(key)
	case !until.IsZero():
		return comesBy(until)
	case p.notices.attempt(key) > mostAttempts:
		p.withdraw(key)
	}
	return ""
}

// HasTold reports whether victims were notified for a pod.
func (p *Plugin) HasTold(pod *corev1.Pod) bool { return p.notices.has(podAsPreemptor(pod).Key()) }

// Tell reports whether a victim of a pod is notified and stays for now, or stays for good because the pod no longer waits. all are the
// victims of the pod.
func (p *Plugin) Tell(ctx context.Context, preemptor, victim *corev1.Pod, all []*corev1.Pod) (stays bool, err error) {
	by := podAsPreemptor(preemptor)
	key := by.Key()
	if there := p.living(nameOf(preemptor), preemptor.UID); there == nil || there.Spec.NodeName != "" { // the preemptor is gone by now
		p.withdraw(key)
		return true, nil
	}
	p.notices.telling.Lock() // this is called concurrently for each victim
	due := p.notices.isDue(key)
	if due {
		p.publish(p.notices.keep(key, all))
	} else if p.notices.victims(key) == nil {
		if told := p.announce(all, by, corev1helpers.PodPriority(preemptor), nil); told != nil {
			p.notices.begin(by, all, told, nil)
			p.look(key)
		}
	}
	p.notices.telling.Unlock()
	if _, told := p.notices.victims(key)[victim.UID]; due || !told {
		return false, nil
	}
	if err := p.writeNotice(ctx, nameOf(victim), victim.UID); err != nil {
		p.withdraw(key)
		return true, err
	}
	return true, nil
}

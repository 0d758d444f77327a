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

// mostAttempts is how often a single pod may try to evict those whose time is over, before it is taken that others have to leave
// for it by now.
const mostAttempts = 3

// announce decides what those are told that are to leave, nil where they leave at once: none of them asks for time to save its work but
// those that borrow, or the preemptor is a service of the cluster.
func (p *Plugin) announce(victims []*corev1.Pod, by notice.Preemptor, priority int32, borrow sets.Set[types.UID]) map[types.UID]notice.Notice {
	if !minruntime.Binds(priority) {
		return nil
	}
	told := make([]notice.Victim, len(victims))
	for i, pod := range victims {
		told[i] = notice.Victim{Pod: pod}
		if !borrow.Has(pod.UID) { // what was borrowed goes back at once
			told[i].Grace = p.graceOf(pod)
		}
		if before, ok := p.notices.onPod(pod.UID); ok {
			told[i].Before = &before
		}
	}
	return notice.Plan(told, by, p.now())
}

// graceOf is how long a pod has to save its work before it is evicted. One that does not run yet has none to save, and in a replay nothing
// happens when that time is over.
func (p *Plugin) graceOf(pod *corev1.Pod) time.Duration {
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if err != nil || p.replay || pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	return p.pools.graces(gpu.PoolOf(node)).Of(pod.Annotations)
}

// clear has others leave for a gang, or tells them first, where they ask for that and were not told yet. It returns what the pod is
// told.
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

// heed says what has become of those that were told to leave for somebody: until when they have time at most, the zero time where
// nobody has, and who they are, nil for nobody.
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

// living returns a pod that is there still, nil for none.
func (p *Plugin) living(name types.NamespacedName, uid types.UID) *corev1.Pod {
	object, found, err := p.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok || pod.UID != uid || !lives(pod) {
		return nil
	}
	return pod
}

// waitsFor says where a member goes whose gang others were told to leave for, and that it waits for them. Where their time is over
// they alone leave for it.
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

// saying is the status of a pod that has a place to go to, when others have left it.
func saying(why string) *fwk.Status {
	if why == "" {
		return nil
	}
	return fwk.NewStatus(fwk.Success, why)
}

// changesItsMind ends what those were told whose leaving would be for nothing by now, and has the gang look for others.
func (p *Plugin) changesItsMind(g gang, group *podGroup, m *members) {
	p.withdraw(keyOf(g))
	p.nominate(m.waiting, nil)
	p.wakeAt(g, group, p.now().Add(again), p.GoesAhead)
}

// Awaits says why a pod evicts nobody for now: others leave for it, or were told to and have time to save their work, or its last place was refused it. It is "" for one
// that may. lost says that it cannot go any more where they are.
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

// HasTold reports whether others were told to leave for a pod.
func (p *Plugin) HasTold(pod *corev1.Pod) bool { return p.notices.has(podAsPreemptor(pod).Key()) }

// Tell reports whether a victim is told to leave for a pod, and stays for now; or for good, as the pod waits no more. All are those that leave for it.
func (p *Plugin) Tell(ctx context.Context, preemptor, victim *corev1.Pod, all []*corev1.Pod) (stays bool, err error) {
	by := podAsPreemptor(preemptor)
	key := by.Key()
	if there := p.living(nameOf(preemptor), preemptor.UID); there == nil || there.Spec.NodeName != "" { // it went while this was prepared
		p.withdraw(key)
		return true, nil
	}
	p.notices.telling.Lock() // it is asked of each victim at the same time
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

package coscheduling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// evictVictims evicts the victims of a gang, and returns which are gone; or notifies them first.
func (p *Plugin) evictVictims(ctx context.Context, g gang, move *preemptionCandidate, members []*corev1.Pod, preemptor *corev1.Pod, isRefusal func(error) bool) (sets.Set[types.UID], error) {
	if move.notices != nil {
		return sets.New[types.UID](), p.notifyVictims(ctx, move, members)
	}
	return p.evictor().EvictAll(ctx, move.victims, preemptionReason(g, preemptor), isRefusal, func() bool { return p.areMembersAlive(members, move) })
}

// notifyVictims notifies the victims of a gang, as long as all its members are alive.
func (p *Plugin) notifyVictims(ctx context.Context, move *preemptionCandidate, members []*corev1.Pod) error {
	return preemption.ForEachPod(ctx, move.victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !p.areMembersAlive(members, move) {
			return preemption.ErrUnwanted
		}
		return p.writeNotice(ctx, nameOf(victim), victim.UID)
	})
}

// withdrawNotices withdraws the notices for a preemptor.
func (p *Plugin) withdrawNotices(key notice.Key) {
	p.writeWithdrawals(p.preemptions.DropPreemption(key))
}

// withdrawRetries is the retry schedule for withdrawing notices: half a minute.
var withdrawRetries = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 9}

// writeWithdrawals writes on pods that they may stay, concurrently with scheduling.
func (p *Plugin) writeWithdrawals(pods map[types.UID]preemption.NotifiedPod) {
	if len(pods) == 0 {
		return
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		for uid, told := range pods {
			err := wait.ExponentialBackoff(withdrawRetries, func() (bool, error) {
				ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
				defer cancel()
				return p.writeNotice(ctx, told.Name, uid) == nil, nil
			})
			if err != nil {
				klog.Background().Error(err, "Could not tell a pod that it may stay", "pod", klog.KRef(told.Name.Namespace, told.Name.Name))
			}
		}
	}()
}

// writeNotice writes on a pod its notice, or that it may stay, and repeats that until the state has not changed during the write.
func (p *Plugin) writeNotice(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	for {
		told, leaves := p.preemptions.NoticeOn(uid)
		pod := p.livePod(name, uid)
		if pod == nil {
			return nil
		}
		var text any
		if leaves {
			text = told.AnnotationText()
		}
		if err := p.evictor().SetAnnotation(ctx, pod, names.AnnotationPreemptionNotice, text); err != nil {
			return err
		}
		p.evictor().RecordNotice(pod, told, leaves)
		if now, still := p.preemptions.NoticeOn(uid); now == told && still == leaves {
			return nil
		}
	}
}

// requeuePreemptor activates a preemptor once the time of its notified victims is over, and sets a timer for that otherwise.
func (p *Plugin) requeuePreemptor(key notice.Key) {
	by, ok := p.preemptions.PreemptorOf(key)
	if !ok {
		return
	}
	until, due := p.noticeStatus(key)
	switch now := p.now(); {
	case due == nil:
		p.preemptions.DropPreemption(key)
	case until.IsZero() && !p.isAwaited(by, false): // the preemptor was gone before its notices were recorded
		p.withdrawNotices(key)
	case until.IsZero():
		p.activatePreemptor(by)
		p.preemptions.SetTimer(key, phase.BaseBackoff, func() { p.requeuePreemptor(key) }) // the eviction may have failed
	default:
		p.preemptions.SetTimer(key, until.Sub(now), func() { p.requeuePreemptor(key) })
	}
}

// activatePreemptor activates a preemptor.
func (p *Plugin) activatePreemptor(by notice.Preemptor) {
	if by.Group == "" {
		if pod := p.livePod(types.NamespacedName{Namespace: by.Namespace, Name: by.Pod}, by.UID); pod != nil {
			p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(pod).String(): pod})
		}
		return
	}
	g := gang{group: types.NamespacedName{Namespace: by.Namespace, Name: by.Group}, owner: by.UID}
	if group := p.groups.GetGroup(g.group); group != nil {
		p.activatePending(g, group, p.IsRepresentative)
	}
}

// watchNotified watches notified pods, and their preemptors.
func (p *Plugin) watchNotified(pods cache.SharedIndexInformer) error {
	if !p.preemptions.ClaimWatch() {
		return nil
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, object any) {
			before, known := old.(*corev1.Pod)
			after, ok := object.(*corev1.Pod)
			if known && ok {
				p.handlePodUpdate(before, after)
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				p.handlePodUpdate(pod, nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following pods that were told to leave: %w", err)
	}
	return nil
}

// handlePodUpdate handles an update of a pod; after is nil if it is gone.
func (p *Plugin) handlePodUpdate(before, after *corev1.Pod) {
	p.trackReplacement(before, after)
	if p.preemptions.IsEmpty() {
		return
	}
	if after != nil && !isLive(after) {
		after = nil
	}
	if told, is := p.preemptions.NoticeOn(before.UID); is {
		p.handleVictimUpdate(told, before, after)
	}
	if before.Spec.NodeName != "" {
		return
	}
	for _, key := range p.preemptorKeys(before) {
		wanted := key.UID == before.UID || before.Status.NominatedNodeName != "" || p.preemptions.MemberNode(key, before.UID) != ""
		if endsPreemption(before, after, wanted) {
			p.withdrawNotices(key)
		}
	}
}

// handleVictimUpdate handles an update of a notified pod; after is nil if it has ended.
func (p *Plugin) handleVictimUpdate(told notice.Notice, before, after *corev1.Pod) {
	switch key := told.For.Key(); {
	case after == nil:
		p.preemptions.RecordVictimGone(before.UID)
		p.requeuePreemptor(key)
	case told.IsAnswered(after) && !told.IsAnswered(before):
		p.requeuePreemptor(key)
	}
}

// endsPreemption reports whether a pod that had no place no longer waits for one: it has ended although it was wanted, it was bound, or its
// nomination was removed.
func endsPreemption(before, after *corev1.Pod, wanted bool) bool {
	switch {
	case after == nil:
		return wanted
	case after.Spec.NodeName != "":
		return true
	}
	return before.Status.NominatedNodeName != "" && after.Status.NominatedNodeName == ""
}

// preemptorKeys returns the keys under which a pod may be a preemptor.
func (p *Plugin) preemptorKeys(pod *corev1.Pod) []notice.Key {
	keys := []notice.Key{podAsPreemptor(pod).Key()}
	if name, ok := p.groups.GroupOf(pod); ok {
		keys = append(keys, preemptorKey(gang{group: name}))
		if owner := placement.OwnerOf(pod); owner != "" {
			keys = append(keys, preemptorKey(gang{group: name, owner: owner}))
		}
	}
	return keys
}

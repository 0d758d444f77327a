package coscheduling

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

const (
	// writeTimeout is how long all writes for one gang may take.
	writeTimeout = 30 * time.Second
	// bindCheckTimeout is how long the API server has to say whether it would bind the members of a gang. No answer by then counts as yes.
	bindCheckTimeout = 5 * time.Second
	// busyWebhookRetry is the delay from which on a webhook that reports to be busy counts as refusing.
	busyWebhookRetry = 4 * phase.FirstWriteRetry
)

// executePreemption checks that all victims may be evicted, nominates the members, and then evicts, concurrently with the scheduling of other
// pods. After a failure the gang is retried: the pods show what was done by then.
func (p *Plugin) executePreemption(g gang, move *preemptionCandidate, members []*corev1.Pod, preemptor *corev1.Pod) {
	p.departures.BeginEvictions(move.victims)
	if move.notices == nil {
		p.gangs.changeState(g, (*phase.Gang).BeginWrites)
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		if refused := p.checkBindings(members, move.to); refused != nil {
			p.cancelPreemption(g, move, preemptor, refused)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		isRefusal := p.refusalPredicate(g)
		err := p.evictor().DryRunEvictions(ctx, move.victims, isRefusal)
		if err == nil {
			err = preemption.ForEachPod(ctx, members, func(ctx context.Context, pod *corev1.Pod) error {
				return p.evictor().WriteNomination(ctx, pod, move.to[pod.UID])
			})
		}
		gone := sets.New[types.UID]()
		if err == nil && p.hasPlacedMember(members, move) {
			err = preemption.ErrUnwanted
		}
		if err == nil {
			gone, err = p.evictVictims(ctx, g, move, members, preemptor, isRefusal)
		}
		p.departures.EndEvictions(move.victims, gone.Has, p.now())
		p.countVictims(gone.Len())
		if err != nil {
			logger.Error(err, "Could not make room for a gang, which is tried once more")
			p.retryPreemption(g, move, members)
			return
		}
		p.gangs.changeKnown(g, func(s *phase.Gang) { s.EndWrites(p.now()) })
		logger.V(2).Info("Pods leave for a gang", "victims", len(move.victims), "members", len(move.to), "told", move.notices != nil)
	}()
}

// retryPreemption retries a gang whose preemption was not completed, by any of its members, because the one that was tried may be gone. If a
// member is gone, all nominations end, and idle nodes among them are free for other pods again.
func (p *Plugin) retryPreemption(g gang, move *preemptionCandidate, members []*corev1.Pod) {
	if move.notices != nil {
		p.withdrawNotices(preemptorKey(g))
	}
	if !p.areMembersAlive(members, move) {
		p.nominateMembers(withNominations(move, members), nil)
	}
	p.gangs.changeKnown(g, func(s *phase.Gang) { s.PlanAttempt(phase.WriteFailed, s.BackOffWrites(p.now())) })
}

// withNominations returns members as they are after their nominations were written, which the informers may not show yet.
func withNominations(move *preemptionCandidate, members []*corev1.Pod) []*corev1.Pod {
	written := make([]*corev1.Pod, len(members))
	for i, pod := range members {
		written[i] = pod.DeepCopy()
		written[i].Status.NominatedNodeName = move.to[pod.UID]
	}
	return written
}

// refusalPredicate returns the predicate for refusals of a gang. A webhook that has repeatedly reported to be busy counts as refusing.
func (p *Plugin) refusalPredicate(g gang) func(error) bool {
	if p.gangs.stateOf(g).WriteBackoff() < busyWebhookRetry {
		return preemption.IsRefusal
	}
	return func(err error) bool { return preemption.IsRefusal(err) || preemption.IsDenial(err) }
}

// areMembersAlive reports whether all members with a planned place are still alive.
func (p *Plugin) areMembersAlive(members []*corev1.Pod, move *preemptionCandidate) bool {
	return !slices.ContainsFunc(members, func(pod *corev1.Pod) bool { return move.to[pod.UID] != "" && !p.isAlive(pod) })
}

// isAlive reports whether a pod is alive, as far as the scheduler knows.
func (p *Plugin) isAlive(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && isLive(there)
}

// Settled reports whether no writes are pending.
func (p *Plugin) Settled() bool { return p.pendingWrites.Load() == 0 }

// nominateMembers sets the nominations of members, and removes all others: a nomination that outlives its reason keeps other pods out.
func (p *Plugin) nominateMembers(members []*corev1.Pod, to map[types.UID]string) {
	stale := slices.DeleteFunc(slices.Clone(members), func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == to[pod.UID] })
	if len(stale) == 0 {
		return
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		if err := preemption.ForEachPod(ctx, stale, func(ctx context.Context, pod *corev1.Pod) error {
			return p.evictor().WriteNomination(ctx, pod, to[pod.UID])
		}); err != nil {
			klog.Background().Error(err, "Could not end the nominations of a gang", "pod", klog.KObj(stale[0]))
		}
	}()
}

// keepNominated nominates all members if only some are nominated, after a failed write.
func (p *Plugin) keepNominated(members []*corev1.Pod, to map[types.UID]string) {
	some, all := false, true
	for _, pod := range members {
		nominated := pod.Status.NominatedNodeName != ""
		some = some || nominated
		all = all && (nominated || to[pod.UID] == "")
	}
	if some && !all {
		p.nominateMembers(members, to)
	}
}

// hasPlacedMember reports whether a member with a planned place has found one in the meantime, so that its gang needs none. It is not checked
// after the first eviction: the rest of a unit that is evicted together would stay.
func (p *Plugin) hasPlacedMember(members []*corev1.Pod, move *preemptionCandidate) bool {
	return slices.ContainsFunc(members, func(pod *corev1.Pod) bool {
		there := p.livePod(nameOf(pod), pod.UID)
		return move.to[pod.UID] != "" && there != nil && there.Spec.NodeName != ""
	})
}

// evictor returns what writes the decisions about pods.
func (p *Plugin) evictor() preemption.Evictor {
	return preemption.Evictor{Handle: p.handle, Now: p.now, Departures: p.departures, Plugin: Name,
		CountEviction: func(label string) { evictions.WithLabelValues(label).Inc() }}
}

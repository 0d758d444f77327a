package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

const (
	// completeWithin is how long a gang may hold some of its places without room for the others before it gives them up.
	completeWithin = 5 * time.Second
	// maxLostRuntime bounds the work that may be lost: a gang that has run for longer keeps its places, whatever it looks like.
	maxLostRuntime = 10 * time.Minute
)

// releasePartialGang releases a partially bound gang that cannot be completed. A leader that died between two bindings, or a failed binding,
// left some members on nodes, and the room for the others is gone; or it was whole, and the members that are made again find no room; or the API
// server refuses the binding of a member again and again. The bound members would hold their GPUs for nothing until other pods end, which may
// themselves wait for those GPUs. Pods placed by another scheduler are left alone.
func (p *Plugin) releasePartialGang(g gang, group *podGroup, m *placement.Members, pod *corev1.Pod) {
	now := p.now()
	ours := placedBy(pod.Spec.SchedulerName, m.Placed)
	if m.Bound < group.minMember && len(m.Placed) != m.Bound {
		return // others of it are being tried, which does not extend its time
	}
	if half := p.isPartiallyBound(g, group, m, ours, now); !half || p.finished.hasFinishedSibling(pod) || p.gangs.stateOf(g).AwaitsDepartures(now) || p.awaitsOwnMembers(g, now) {
		p.gangs.changeKnown(g, (*phase.Gang).EndPartial)
		return
	}
	var since time.Time
	p.gangs.changeState(g, func(s *phase.Gang) { since = s.BeginPartial(now) })
	if left := completeWithin - now.Sub(since); left > 0 {
		if since.Equal(now) { // the first attempt that detects it
			p.gangs.planAttempt(g, phase.BoundInPart, now.Add(left)) // this pod may have been recreated by then
		}
		return
	}
	if !newBudgets(p.budgets, p.departures.UncountedPods(now)).allowsEviction(ours) {
		return
	}
	p.gangs.changeKnown(g, func(s *phase.Gang) {
		s.EndPartial()
		s.HoldBackStart()
	})
	p.departures.BeginEvictions(ours)
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		why := releaseReason(pod)
		gone := sets.New[types.UID]()
		// The condition is written to all of them first: it lets a later attempt, or another leader, recognize the rest of a gang whose release
		// has begun.
		err := preemption.ForEachPod(ctx, ours, func(ctx context.Context, member *corev1.Pod) error {
			return p.evictor().WriteEvictionReason(ctx, member, why)
		})
		if err == nil {
			gone, err = p.evictor().EvictAll(ctx, ours, why, preemption.IsRefusal, func() bool { return true })
		}
		if p.departures.EndEvictions(ours, gone.Has, p.now()); err != nil {
			logger.Error(err, "Could not end half a gang, which is tried again")
			p.gangs.planAttempt(g, phase.BoundInPart, p.now().Add(phase.FirstWriteRetry))
			return
		}
		logger.V(2).Info("Half a gang ends, as there is no room for the rest of it", "members", len(ours))
	}()
}

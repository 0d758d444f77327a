package coscheduling

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

const (
	// completeWithin is how long a gang may have some of its places and no room for the others, until it gives them up.
	completeWithin = 5 * time.Second
	// mostLost is the most that is lost then: a gang that has run for longer keeps its places whatever it looks like.
	mostLost = 10 * time.Minute
)

// dissolve ends half a gang that cannot be completed: a leader that died between two bindings, or a binding that failed, left
// some members on nodes, and the room for the others is gone. They would hold their GPUs for nothing until somebody else
// ends, who may wait for just those.
func (p *Plugin) dissolve(g gang, group *podGroup, m *members, pod *corev1.Pod) {
	now := p.now()
	if half := p.staysHalf(g, group, m, now); !half || p.finished.before(pod) || p.places.settles(g, now) {
		p.places.halfSince(g, time.Time{})
		return
	}
	since := p.places.halfSince(g, now)
	if left := completeWithin - now.Sub(since); left > 0 {
		if since.Equal(now) { // the first to find that out
			time.AfterFunc(left, func() { p.wake(g, group, oneMember()) }) // this one may be gone by then, and made again
		}
		return
	}
	if !newBudgets(p.budgets, p.departures.uncounted(now)).allow(m.placed) {
		return
	}
	p.places.halfSince(g, time.Time{})
	p.departures.begin(m.placed)
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		why := dissolved(pod)
		gone := sets.New[types.UID]()
		// All are told first: by that a later attempt, or another leader, knows those that are left of a half that has begun to end.
		err := p.each(ctx, m.placed, func(ctx context.Context, member *corev1.Pod) error { return p.sayWhy(ctx, member, why) })
		if err == nil {
			gone, err = p.evictAll(ctx, m.placed, why, isRefusal, func() bool { return true })
		}
		if p.departures.end(m.placed, gone.Has, p.now()); err != nil {
			logger.Error(err, "Could not end half a gang, which is tried again")
			return
		}
		logger.V(2).Info("Half a gang ends, as there is no room for the rest of it", "members", len(m.placed))
	}()
}

// staysHalf reports whether a gang is half placed, and notes it: until it is whole it stays so, whichever of its members are made again,
// and whatever its PodGroup says meanwhile. That is forgotten with the leader.
func (p *Plugin) staysHalf(g gang, group *podGroup, m *members, now time.Time) bool {
	if isHalf(m, group, now) {
		p.places.neverWhole(g)
		return true
	}
	return p.places.wasNeverWhole(g) && len(m.placed) == m.bound && m.bound > 0 && m.bound < group.minMember && !slices.ContainsFunc(m.placed, isNobodys)
}

// isNobodys reports whether a pod has no controller, which would make it again.
func isNobodys(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }

// isHalf reports whether some members of a gang are bound and the others never were. A gang is bound when all members are
// there: those of a gang that was whole once and lost some are younger than the bindings of the others, as they were made in
// the place of those that are lost. Of a gang with more members than it takes nobody can tell, nor of one whose PodGroup
// has changed or come since: it may have started whole, with fewer. One whose end has begun is half, however young the others
// are by now. Pods that nobody would make again are never ended.
func isHalf(m *members, group *podGroup, now time.Time) bool {
	want, countable := group.minMember, group.Generation <= 1 && m.gated+m.foreign == 0 && len(m.placed) == m.bound
	if !countable || m.bound == 0 || m.bound >= want || m.bound+len(m.waiting) != want {
		return false
	}
	if slices.ContainsFunc(m.placed, isNobodys) {
		return false
	}
	return slices.ContainsFunc(m.placed, isToldOfHalf) || nobodyIsYounger(m, group, now)
}

// nobodyIsYounger reports whether all members are older than the first binding of one, which is not long ago.
func nobodyIsYounger(m *members, group *podGroup, now time.Time) bool {
	first := now
	for _, pod := range m.placed {
		at := boundAt(pod)
		if at.IsZero() || now.Sub(at) > mostLost {
			return false
		}
		if at.Before(first) {
			first = at
		}
	}
	younger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(first) }
	return !group.CreationTimestamp.After(first) && !slices.ContainsFunc(m.waiting, younger)
}

// isToldOfHalf reports whether a pod was told that it ends as a part of half a gang.
func isToldOfHalf(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonIncomplete
	})
}

// boundAt is when a pod was bound, zero if it does not say. The API server notes it, as it does when a pod was made.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// neverWhole notes that a gang is half placed and was never whole, and wasNeverWhole reports it.
func (p *places) neverWhole(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).partial = true
}

func (p *places) wasNeverWhole(g gang) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return ok && r.partial
}

// halfSince notes that a gang is half placed at a time, and returns since when it was found to be. The zero time is for one
// that is not.
func (p *places) halfSince(g gang, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.gangs[g]
	switch {
	case now.IsZero():
		if ok {
			r.half = time.Time{}
		}
		return now
	case !ok:
		r = p.record(g)
	}
	if r.half.IsZero() {
		r.half = now
	}
	return r.half
}

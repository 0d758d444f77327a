package coscheduling

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
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
// ends, who may wait for just those; or the API server refuses the binding of a member again and again. What another scheduler has placed is
// not ours to end.
func (p *Plugin) dissolve(g gang, group *podGroup, m *members, pod *corev1.Pod) {
	now := p.now()
	ours := placedBy(pod.Spec.SchedulerName, m.placed)
	if half := p.staysHalf(g, group, m, ours, now); !half || p.finished.before(pod) || p.places.settles(g, now) {
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
	if !newBudgets(p.budgets, p.departures.uncounted(now)).allow(ours) {
		return
	}
	p.places.halfSince(g, time.Time{})
	p.places.sitOut(g)
	p.departures.begin(ours)
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		why := dissolved(pod)
		gone := sets.New[types.UID]()
		// All are told first: by that a later attempt, or another leader, knows those that are left of a half that has begun to end.
		err := p.each(ctx, ours, func(ctx context.Context, member *corev1.Pod) error { return p.sayWhy(ctx, member, why) })
		if err == nil {
			gone, err = p.evictAll(ctx, ours, why, isRefusal, func() bool { return true })
		}
		if p.departures.end(ours, gone.Has, p.now()); err != nil {
			logger.Error(err, "Could not end half a gang, which is tried again")
			return
		}
		logger.V(2).Info("Half a gang ends, as there is no room for the rest of it", "members", len(ours))
	}()
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

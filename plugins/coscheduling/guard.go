package coscheduling

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/minruntime"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// MayEvict reports whether a pod may leave for another, for all that its min-runtime and GPUQuotas say, and that others were told. One that
// takes its time to end is no use to anybody.
func (p *Plugin) MayEvict(victim, by *corev1.Pod) bool {
	if victim.DeletionTimestamp != nil && !isLeaving(victim, p.now()) {
		return false
	}
	if !p.notices.allows(podAsPreemptor(by).Key(), victim.UID) {
		return false
	}
	if isService(by) {
		return true
	}
	return !p.guardedUntil(victim).After(p.now()) && !p.quotas.Guaranteed(victim, by.Namespace)
}

// isService reports whether a pod is a service of the cluster, whose priority users cannot have.
func isService(pod *corev1.Pod) bool { return !minruntime.Binds(corev1helpers.PodPriority(pod)) }

// guardedUntil is until when a pod may not be evicted, as it has not run for its min-runtime before. The zero time is for one
// that may be at once.
func (p *Plugin) guardedUntil(pod *corev1.Pod) time.Time {
	return minruntime.Until(pod, p.minRuntimesOn(pod.Spec.NodeName))
}

// minRuntimesOn are those of the pool of a node.
func (p *Plugin) minRuntimesOn(name string) names.MinRuntimes {
	node, err := p.nodes.Get(name)
	if err != nil || p.now().IsZero() {
		return names.MinRuntimes{} // it is gone, or in a simulation, whose clock stands still: all would be guarded for ever
	}
	return p.pools.minRuntimes(gpu.PoolOf(node))
}

// guardedUntil is that of a pod, for which each node is asked once.
func (c *census) guardedUntil(pod *corev1.Pod) time.Time {
	of, known := c.minRuntimes[pod.Spec.NodeName]
	if !known {
		of = c.minRuntimesOn(pod.Spec.NodeName)
		c.minRuntimes[pod.Spec.NodeName] = of
	}
	return minruntime.Until(pod, of)
}

// guards reports whether pods that leave together may not yet, as one of them has not run for its min-runtime, and notes until when.
func (c *census) guards(pods ...*corev1.Pod) bool {
	if !minruntime.Binds(c.below) {
		return false
	}
	var until time.Time
	for _, pod := range pods {
		if end := c.guardedUntil(pod); end.After(until) {
			until = end
		}
	}
	if !until.After(c.now) {
		return false
	}
	if !slices.ContainsFunc(pods, c.matters) {
		return true // it may not leave, and nobody waits for that
	}
	if first := c.crowd.guarded; first.IsZero() || until.Before(first) {
		c.crowd.guarded = until
	}
	return true
}

// isMeant reports whether pods that leave together may, where only some may leave: as soon as one of them is among those, as a
// member of a gang may have been made anew meanwhile.
func (c *census) isMeant(pods ...*corev1.Pod) bool {
	return c.only == nil || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return c.only.Has(pod.UID) })
}

// matters reports whether a pod holds cards, or the gang wants none: who waits for cards is told of no others.
func (c *census) matters(pod *corev1.Pod) bool {
	demand, err := gpu.DemandOf(pod)
	return err == nil && demand.NeedsCards() || !slices.ContainsFunc(c.seats, func(s seat) bool { return s.demand.NeedsCards() })
}

// setback is why nobody leaves for a gang: in words, "" where it needs none, and until when the first of those may not leave that
// could, the zero time where there are none.
type setback struct {
	// looked is how many pods were looked at.
	looked int
	// unfinished says that the search goes on.
	unfinished bool
	why        string
	guarded    time.Time
	// borrowed says that those could have left because they borrow, budgeted that budgets keep some who do.
	borrowed, budgeted bool
}

// says is why nobody may leave yet who could, "" where nobody could.
func (s *setback) says() string {
	switch {
	case s.borrowed && !s.guarded.IsZero():
		return reason.QuotaGuarded.Text.Of(s.guarded.UTC().Format(time.RFC3339))
	case s.borrowed && s.budgeted:
		return string(reason.QuotaBudgeted.Text)
	case !s.guarded.IsZero():
		return reason.GangGuarded.Text.Of(s.guarded.UTC().Format(time.RFC3339))
	}
	return ""
}

// holdOff has a gang evict nobody for a while. That the first of those may leave who could is told by no change in the cluster: the
// gang is tried again then, and not before it may evict again. When a budget lets somebody leave nobody knows, and to ask for many that
// wait would cost all others: they are tried when the cluster changes, and when kube-scheduler tries all that wait, each five minutes.
func (p *Plugin) holdOff(g gang, group *podGroup, s setback) string {
	until := p.now().Add(exhausted)
	told := s.says()
	if told == "" {
		p.places.futile(g, until, s.why, "")
		return s.why
	}
	p.places.futile(g, until, s.why, told)
	if s.guarded.IsZero() {
		p.places.doze(g)
		return cmp.Or(s.why, told)
	}
	if s.guarded.After(until) {
		until = minTime(s.guarded, p.now().Add(mostVain)) // a timer for a day outlives its gang
	}
	if p.places.sleepsPast(g, until, p.now()) {
		p.wakeAt(g, group, until, p.GoesAhead)
	}
	return cmp.Or(s.why, told)
}

// staysAwake has a gang that others may not leave for yet tried when it may evict again, if no timer does: the one that has just
// ended may have been set by an attempt before the last.
func (p *Plugin) staysAwake(g gang, group *podGroup, now time.Time) {
	if until := p.places.overslept(g, now); until.After(now) {
		p.wakeAt(g, group, until, p.GoesAhead)
	}
}

// overslept is when a gang may evict again that is guarded from, and that no timer has tried; zero where that is not so.
func (p *places) overslept(g gang, now time.Time) time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	if !ok || r.guard == "" || r.dozes || r.wakes.After(now) {
		return time.Time{}
	}
	if r.abstains.After(r.futileUntil) {
		return r.abstains
	}
	return r.futileUntil
}

// doze has no timer try a gang that others may not leave for.
func (p *places) doze(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).dozes = true
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sleepsPast reports whether no member is tried by a time that is set already.
func (p *places) sleepsPast(g gang, until, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return !ok || !r.wakes.After(now) || r.wakes.After(until)
}

// guardOf says that nobody leaves for a gang yet because of a min-runtime, "" where that is not so.
func (p *places) guardOf(g gang) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.guard
	}
	return ""
}

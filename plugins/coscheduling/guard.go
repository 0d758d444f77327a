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

// MayEvict reports whether a pod may be evicted for another one, as far as min-runtime, GPUQuotas and preemption notices are concerned. A victim
// that takes long to terminate is of no use.
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

// isService reports whether a pod is a service of the cluster, with a priority above that of users.
func isService(pod *corev1.Pod) bool { return !minruntime.Binds(corev1helpers.PodPriority(pod)) }

// guardedUntil returns until when a pod may not be evicted, because it has not reached its min-runtime. The zero time means that it may be
// evicted at once.
func (p *Plugin) guardedUntil(pod *corev1.Pod) time.Time {
	return minruntime.Until(pod, p.minRuntimesOn(pod.Spec.NodeName))
}

// minRuntimesOn returns the min-runtimes of the pool of a node.
func (p *Plugin) minRuntimesOn(name string) names.MinRuntimes {
	node, err := p.nodes.Get(name)
	if err != nil || p.now().IsZero() {
		return names.MinRuntimes{} // the node is gone; or in a simulation, whose clock stands still, all pods would be protected forever
	}
	return p.pools.minRuntimes(gpu.PoolOf(node))
}

// guardedUntil is Plugin.protectedUntil with a cache by node.
func (c *census) guardedUntil(pod *corev1.Pod) time.Time {
	of, known := c.minRuntimes[pod.Spec.NodeName]
	if !known {
		of = c.minRuntimesOn(pod.Spec.NodeName)
		c.minRuntimes[pod.Spec.NodeName] = of
	}
	return minruntime.Until(pod, of)
}

// guards reports whether pods that are evicted together are protected, because one of them has not reached its min-runtime, and records until
// when.
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
		return true // the pods are protected, and their end is of no interest
	}
	if first := c.crowd.guarded; first.IsZero() || until.Before(first) {
		c.crowd.guarded = until
	}
	return true
}

// isMeant reports whether pods that are evicted together include an allowed victim, if only some pods may be evicted. One is enough,
// because a member of a gang may have been recreated in the meantime.
func (c *census) isMeant(pods ...*corev1.Pod) bool {
	return c.only == nil || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return c.only.Has(pod.UID) })
}

// matters reports whether a pod holds GPUs, or the gang requests none. Messages to pods that wait for GPUs mention no other victims.
func (c *census) matters(pod *corev1.Pod) bool {
	demand, err := gpu.DemandOf(pod)
	return err == nil && demand.NeedsCards() || !slices.ContainsFunc(c.seats, func(s seat) bool { return s.demand.NeedsCards() })
}

// setback is why no pod leaves for a gang. why is the text, "" if none is needed. protectedUntil is when the first protected candidate
// may be evicted, the zero time if there is none.
type setback struct {
	// looked is how many pods were visited.
	looked int
	// unfinished says that the search continues in the next attempt.
	unfinished bool
	why        string
	guarded    time.Time
	// borrowed says that candidates are borrowers, budgeted that disruption budgets protect some borrowers.
	borrowed, budgeted bool
}

// says returns why no candidate may be evicted yet, "" if there are no candidates.
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

// holdOff backs off the preemption of a gang. No event in the cluster reports that the first protected candidate may be evicted, so a timer
// activates the gang then, and not before its backoff ends. There is no timer for budgets, because it is unknown when a budget allows an
// eviction, and polling for many waiting gangs would slow down all others: they are retried when the cluster changes, and when kube-scheduler
// flushes waiting pods, every five minutes.
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
		until = minTime(s.guarded, p.now().Add(mostVain)) // a timer of a day would outlive its gang
	}
	if p.places.sleepsPast(g, until, p.now()) {
		p.wakeAt(g, group, until, p.GoesAhead)
	}
	return cmp.Or(s.why, told)
}

// staysAwake ensures a timer for a gang with protected candidates at the end of its backoff, if it has none: the timer that has just ended may
// have been set by an attempt before the last.
func (p *Plugin) staysAwake(g gang, group *podGroup, now time.Time) {
	if until := p.places.overslept(g, now); until.After(now) {
		p.wakeAt(g, group, until, p.GoesAhead)
	}
}

// overslept returns when the backoff of a gang with protected candidates ends, if no timer covers that; zero otherwise.
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

// doze disables the timer of a gang with protected candidates.
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

// sleepsPast reports whether no timer activates the gang by a given time.
func (p *places) sleepsPast(g gang, until, now time.Time) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.gangs[g]
	return !ok || !r.wakes.After(now) || r.wakes.After(until)
}

// guardOf returns why candidates of a gang are still protected by a min-runtime, "" if none are.
func (p *places) guardOf(g gang) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.guard
	}
	return ""
}

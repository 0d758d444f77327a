package coscheduling

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
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
	if !p.preemptions.AllowsEviction(podAsPreemptor(by).Key(), victim.UID) {
		return false
	}
	if isService(by) {
		return true
	}
	return !p.protectedUntil(victim).After(p.now()) && !p.quotas.IsGuaranteed(victim, by.Namespace)
}

// isService reports whether a pod is a service of the cluster, with a priority above that of users.
func isService(pod *corev1.Pod) bool { return !minruntime.AppliesTo(corev1helpers.PodPriority(pod)) }

// protectedUntil returns until when a pod may not be evicted, because it has not reached its min-runtime. The zero time means that it may be
// evicted at once.
func (p *Plugin) protectedUntil(pod *corev1.Pod) time.Time {
	return minruntime.ProtectedUntil(pod, p.minRuntimesOn(pod.Spec.NodeName))
}

// minRuntimesOn returns the min-runtimes of the pool of a node.
func (p *Plugin) minRuntimesOn(name string) names.MinRuntimes {
	node, err := p.nodes.Get(name)
	if err != nil || p.now().IsZero() {
		return names.MinRuntimes{} // the node is gone; or in a simulation, whose clock stands still, all pods would be protected forever
	}
	return p.pools.MinRuntimesOf(gpu.PoolOf(node))
}

// podProtectedUntil is Plugin.protectedUntil with a cache by node.
func (c *victimCollector) podProtectedUntil(pod *corev1.Pod) time.Time {
	of, known := c.minRuntimes[pod.Spec.NodeName]
	if !known {
		of = c.minRuntimesOn(pod.Spec.NodeName)
		c.minRuntimes[pod.Spec.NodeName] = of
	}
	return minruntime.ProtectedUntil(pod, of)
}

// isProtected reports whether pods that are evicted together are protected, because one of them has not reached its min-runtime, and records until
// when.
func (c *victimCollector) isProtected(pods ...*corev1.Pod) bool {
	if !minruntime.AppliesTo(c.below) {
		return false
	}
	var until time.Time
	for _, pod := range pods {
		if end := c.podProtectedUntil(pod); end.After(until) {
			until = end
		}
	}
	if !until.After(c.now) {
		return false
	}
	if !slices.ContainsFunc(pods, c.isRelevant) {
		return true // the pods are protected, and their end is of no interest
	}
	if first := c.occupants.protectedUntil; first.IsZero() || until.Before(first) {
		c.occupants.protectedUntil = until
	}
	return true
}

// isAllowedVictim reports whether pods that are evicted together include an allowed victim, if only some pods may be evicted. One is enough,
// because a member of a gang may have been recreated in the meantime.
func (c *victimCollector) isAllowedVictim(pods ...*corev1.Pod) bool {
	return c.only == nil || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return c.only.Has(pod.UID) })
}

// isRelevant reports whether a pod holds GPUs, or the gang requests none. Messages to pods that wait for GPUs mention no other victims.
func (c *victimCollector) isRelevant(pod *corev1.Pod) bool {
	demand, err := gpu.DemandOf(pod)
	return err == nil && demand.NeedsGPUs() || !slices.ContainsFunc(c.Slots, func(s placement.PodSlot) bool { return s.Demand.NeedsGPUs() })
}

// preemptionFailure is why no pod leaves for a gang. why is the text, "" if none is needed. protectedUntil is when the first protected candidate
// may be evicted, the zero time if there is none.
type preemptionFailure struct {
	// podsSearched is how many pods were visited.
	podsSearched int
	// unfinished says that the search continues in the next attempt.
	unfinished     bool
	why            string
	protectedUntil time.Time
	// borrowed says that candidates are borrowers, budgeted that disruption budgets protect some borrowers.
	borrowed, budgeted bool
}

// reasonMessage returns why no candidate may be evicted yet, "" if there are no candidates.
func (s *preemptionFailure) reasonMessage() string {
	switch {
	case s.borrowed && !s.protectedUntil.IsZero():
		return reason.QuotaGuarded.Text.FormatText(s.protectedUntil.UTC().Format(time.RFC3339))
	case s.borrowed && s.budgeted:
		return string(reason.QuotaBudgeted.Text)
	case !s.protectedUntil.IsZero():
		return reason.GangGuarded.Text.FormatText(s.protectedUntil.UTC().Format(time.RFC3339))
	}
	return ""
}

// backOffGang backs off the preemption of a gang. No event in the cluster reports that the first protected candidate may be evicted, so a timer
// activates the gang then, and not before its backoff ends. There is no timer for budgets, because it is unknown when a budget allows an
// eviction, and polling for many waiting gangs would slow down all others: they are retried when the cluster changes, and when kube-scheduler
// flushes waiting pods, every five minutes.
func (p *Plugin) backOffGang(g gang, s preemptionFailure) string {
	now := p.now()
	until, told := now.Add(phase.BaseBackoff), s.reasonMessage()
	p.gangs.changeState(g, func(of *phase.Gang) { of.MarkUnhelpful(until, s.why, told, s.protectedUntil.IsZero()) })
	if s.protectedUntil.After(until) {
		until = s.protectedUntil
	}
	if latest := now.Add(phase.MaxBackoff); until.After(latest) { // a timer of a day would outlive its gang
		until = latest
	}
	if told != "" && !s.protectedUntil.IsZero() {
		p.gangs.planAttempt(g, phase.VictimsProtected, until)
	}
	return cmp.Or(s.why, told)
}

// planProtectionRetry has a gang with protected victims tried at the end of its backoff, if it is not tried for them before.
func (p *Plugin) planProtectionRetry(g gang, now time.Time) {
	p.gangs.changeKnown(g, func(s *phase.Gang) {
		if until := s.ProtectionRetry(); until.After(now) && !s.IsPlanned(phase.VictimsProtected) {
			s.PlanAttempt(phase.VictimsProtected, until)
		}
	})
}

package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
)

// isPartiallyBound reports whether we have partially bound a gang, and records it. The gang stays partial until it is whole, whichever members are
// recreated, and whatever its PodGroup says in the meantime. A gang that this process has seen whole is not partial, whichever leader bound it,
// unless it has lost a member to preemption. Pods without a controller are never ended.
func (p *Plugin) isPartiallyBound(g gang, group *podGroup, m *members, ours []*corev1.Pod, now time.Time) bool {
	if len(m.placed) != m.bound || m.bound >= group.minMember || len(ours) == 0 || slices.ContainsFunc(ours, hasNoController) {
		return false
	}
	switch whole, partial := p.gangStates.wholeState(g); {
	case whole:
		return false
	case partial:
		return true
	}
	isPlanned := func(pod *corev1.Pod) bool { return planOf(pod) != "" }
	half := isPartOfPlan(ours, now)
	if !slices.ContainsFunc(ours, isPlanned) {
		half = isPartiallyPlaced(m, group, now)
	}
	if half {
		p.gangStates.markPartial(g)
	}
	return half
}

// placedBy returns the bound pods that a given scheduler placed.
func placedBy(scheduler string, bound []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(bound), func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName != scheduler })
}

// hasNoController reports whether a pod has no controller that would recreate it.
func hasNoController(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }

// planOf returns the plan by which a member was bound, "" for a member that joined a complete gang, or was bound by an earlier version.
func planOf(pod *corev1.Pod) string {
	if plan := pod.Annotations[names.AnnotationGangPlan]; cycle.MembersOf(plan) > 0 {
		return plan
	}
	return ""
}

// isPartOfPlan reports whether a leader bound only a part of a gang: every plan named on the bound members is incomplete. The missing members
// may have been lost later, by a gang that was whole. A process that watched the gang knows that. To any other, a gang that started recently, is
// incomplete and has no room counts as one that never was whole.
func isPartOfPlan(bound []*corev1.Pod, now time.Time) bool {
	there, long := map[string]int{}, false
	for _, pod := range bound {
		plan := planOf(pod)
		if plan == "" {
			continue
		}
		if there[plan]++; there[plan] == cycle.MembersOf(plan) {
			return false
		}
		at := boundAt(pod)
		long = long || at.IsZero() || now.Sub(at) > maxLostRuntime
	}
	return !long || slices.ContainsFunc(bound, hasReleaseCondition)
}

// isPartiallyPlaced reports whether some members of a gang are bound and the others never were, if no plan is written on them. A gang is bound
// once all members exist. If a whole gang lost members, their replacements are younger than the bindings of the others. A gang with more members
// than it needs is undecidable, as is one whose PodGroup was changed or created later: it may have started whole, with fewer members. A gang
// whose release has begun is partial, however young the other members are by now.
func isPartiallyPlaced(m *members, group *podGroup, now time.Time) bool {
	want, countable := group.minMember, group.Generation <= 1 && m.gated+m.foreign == 0
	if !countable || m.bound+len(m.waiting) != want {
		return false
	}
	return slices.ContainsFunc(m.placed, hasReleaseCondition) || areCreatedBeforeBinding(m, group, now)
}

// areCreatedBeforeBinding reports whether all members are older than the first binding, which must be recent.
func areCreatedBeforeBinding(m *members, group *podGroup, now time.Time) bool {
	first := now
	for _, pod := range m.placed {
		at := boundAt(pod)
		if at.IsZero() || now.Sub(at) > maxLostRuntime {
			return false
		}
		if at.Before(first) {
			first = at
		}
	}
	younger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(first) }
	return !group.CreationTimestamp.After(first) && !slices.ContainsFunc(m.waiting, younger)
}

// hasReleaseCondition reports whether a pod has the condition that it ends as a part of a partially bound gang.
func hasReleaseCondition(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonIncomplete
	})
}

// boundAt returns when a pod was bound, as recorded by the API server; zero if unknown.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// markPartial records that a gang is partially bound and was never whole.
func (p *gangStates) markPartial(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureState(g).partial = true
}

// markMemberLost records that a gang has lost a member to preemption. If fewer members than needed remain, the gang counts as partially bound
// from now on.
func (p *gangStates) markMemberLost(g gang, want int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.bound.Len() > 0 && r.bound.Len() < want {
		r.whole, r.partial = false, true
	}
}

// wholeState returns whether a gang was seen whole, and whether it was found partially bound and not whole since.
func (p *gangStates) wholeState(g gang) (whole, partial bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.whole, r.partial
	}
	return false, false
}

// recordBinding records a member that the API server reports as bound, of a gang with the given minMember. That lets a process know whether a
// gang was ever whole.
func (p *gangStates) recordBinding(g gang, pod types.UID, node string, want int) {
	p.markBound(g, pod, node)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	isWhole := r.bound.Len() >= want
	if r.lostPlace.pod == pod || isWhole && !r.whole && (r.lostPlace.pod == "" || r.bound.Has(r.lostPlace.pod)) {
		r.clearBackoff()
	}
	if isWhole {
		r.whole, r.wholeSize, r.partial, r.partialSince = true, want, false, time.Time{}
	}
}

// recordWholeSize records that a gang was whole with so many members.
func (p *gangStates) recordWholeSize(g gang, members int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.ensureState(g); !r.whole {
		r.whole, r.wholeSize = true, members
	}
}

// completePlanSize returns the size of the largest complete plan by which some of the given pods were bound; 0 for none.
func completePlanSize(bound []*corev1.Pod) (members int) {
	there := map[string]int{}
	for _, pod := range bound {
		plan := planOf(pod)
		if plan == "" {
			continue
		}
		if there[plan]++; there[plan] == cycle.MembersOf(plan) {
			members = max(members, there[plan])
		}
	}
	return members
}

// gangBindPlan returns the plan of the members that wait in Permit, and of the last member that they wait for.
func (p *gangStates) gangBindPlan(g gang) *cycle.GangPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ensureState(g)
	if r.bindPlan == nil {
		r.bindPlan = &cycle.GangPlan{}
	}
	return r.bindPlan
}

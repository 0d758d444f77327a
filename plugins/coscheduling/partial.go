package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

// isPartiallyBound reports whether we have partially bound a gang, and records it. The gang stays partial until it is whole, whichever members are
// recreated, and whatever its PodGroup says in the meantime. A gang that this process has seen whole is not partial, whichever leader bound it,
// unless it has lost a member since. Pods without a controller are never ended.
func (p *Plugin) isPartiallyBound(g gang, group *podGroup, m *placement.Members, ours []*corev1.Pod, now time.Time) bool {
	if len(m.Placed) != m.Bound || m.Bound >= group.minMember || len(ours) == 0 || slices.ContainsFunc(ours, hasNoController) {
		return false
	}
	switch state := p.gangs.stateOf(g); {
	case state.WasWhole():
		return false
	case state.IsPartial():
		return true
	}
	isPlanned := func(pod *corev1.Pod) bool { return planOf(pod) != "" }
	half := isPartOfPlan(ours, now)
	if !slices.ContainsFunc(ours, isPlanned) {
		half = isPartiallyPlaced(m, group, now)
	}
	if half {
		p.gangs.changeState(g, (*phase.Gang).MarkPartial)
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
func isPartiallyPlaced(m *placement.Members, group *podGroup, now time.Time) bool {
	want, countable := group.minMember, group.Generation <= 1 && m.Gated+m.Foreign == 0
	if !countable || m.Bound+len(m.Waiting) != want {
		return false
	}
	return slices.ContainsFunc(m.Placed, hasReleaseCondition) || areCreatedBeforeBinding(m, group, now)
}

// areCreatedBeforeBinding reports whether all members are older than the first binding, which must be recent.
func areCreatedBeforeBinding(m *placement.Members, group *podGroup, now time.Time) bool {
	first := now
	for _, pod := range m.Placed {
		at := boundAt(pod)
		if at.IsZero() || now.Sub(at) > maxLostRuntime {
			return false
		}
		if at.Before(first) {
			first = at
		}
	}
	younger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(first) }
	return !group.CreationTimestamp.After(first) && !slices.ContainsFunc(m.Waiting, younger)
}

// hasReleaseCondition reports whether a pod has the condition that it ends as a part of a partially bound gang.
func hasReleaseCondition(pod *corev1.Pod) bool {
	disrupted := condition.TrueOfPod(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == reasonIncomplete
}

// boundAt returns when a pod was bound, as recorded by the API server; zero if unknown.
func boundAt(pod *corev1.Pod) time.Time {
	bound := condition.TrueOfPod(pod, corev1.PodScheduled)
	if bound == nil {
		return time.Time{}
	}
	return bound.LastTransitionTime.Time
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

// Package partial reads from pods whether a gang is partially bound: by which plan its members were bound, when, and which of them leave. It has no
// memory: a scheduler process that has just started reads the same. What a process has seen is in package phase.
package partial

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

// ReleaseReason is the reason of the condition DisruptionTarget on members that end as a part of a gang.
const ReleaseReason = "IncompleteGang"

// MaxLostRuntime bounds the work that may be lost on a guess: where pods alone do not tell whether a gang has lost a member or one has ended by
// itself, a gang that has run for longer keeps its places.
const MaxLostRuntime = 10 * time.Minute

// Group is what the object of a gang says of how many members start together, and since when.
type Group struct {
	MinMember  int
	Generation int64
	Created    time.Time
}

// BoundByScheduler returns the members with a node that a given scheduler placed.
func BoundByScheduler(scheduler string, m *placement.Members) []*corev1.Pod {
	return slices.DeleteFunc(boundOf(m), func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName != scheduler })
}

// boundOf returns the members with a node.
func boundOf(m *placement.Members) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(m.Placed), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
}

// MayBeReleased reports whether a gang needs more members than are bound, and the bound ones would be made again if they end.
func MayBeReleased(ours []*corev1.Pod, m *placement.Members, minMember int) bool {
	hasNoController := func(pod *corev1.Pod) bool { return metav1.GetControllerOfNoCopy(pod) == nil }
	return m.Bound < minMember && len(ours) > 0 && !slices.ContainsFunc(ours, hasNoController)
}

// WasNeverWhole reports whether a leader bound some of the members alone, as far as pods tell: by the plans written on them, or else by their ages.
func WasNeverWhole(ours []*corev1.Pod, m *placement.Members, group Group, now time.Time) bool {
	if slices.ContainsFunc(ours, hasPlan) {
		return isPartOfPlan(ours, now)
	}
	return isPartiallyPlaced(m, group, now)
}

// planOf returns the plan by which a member was bound, "" for a member that joined a complete gang, or was bound by an earlier version.
func planOf(pod *corev1.Pod) string {
	if plan := pod.Annotations[names.AnnotationGangPlan]; cycle.MembersOf(plan) > 0 {
		return plan
	}
	return ""
}

// isPartOfPlan reports whether a leader bound only a part of a gang: every plan named on the bound members is incomplete. The missing members
// may have ended by themselves later, in a gang that was whole. A process that watched the gang knows that. To any other, a gang that started
// recently, is incomplete and has no room counts as one that never was whole.
func isPartOfPlan(bound []*corev1.Pod, now time.Time) bool {
	if CompletePlanSize(bound) > 0 {
		return false
	}
	ranLong := slices.ContainsFunc(bound, func(pod *corev1.Pod) bool { return hasPlan(pod) && hasRunLong(pod, now) })
	return !ranLong || slices.ContainsFunc(bound, hasReleaseCondition)
}

// CompletePlanSize returns the size of the largest complete plan by which some of the given pods were bound; 0 for none.
func CompletePlanSize(bound []*corev1.Pod) (members int) {
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

// isPartiallyPlaced reports whether some members of a gang are bound and the others never were, if no plan is written on them. A gang is bound
// once all members exist. If a whole gang lost members, their replacements are younger than the bindings of the others. A gang with more members
// than it needs is undecidable, as is one whose PodGroup was changed or created later: it may have started whole, with fewer members. A gang
// whose release has begun is partial, however young the other members are by now.
func isPartiallyPlaced(m *placement.Members, group Group, now time.Time) bool {
	isCountable := group.Generation <= 1 && m.Gated+m.Foreign == 0
	if !isCountable || len(m.Placed)+len(m.Waiting) != group.MinMember {
		return false
	}
	return slices.ContainsFunc(m.Placed, hasReleaseCondition) || areCreatedBeforeBinding(m, group, now)
}

// areCreatedBeforeBinding reports whether all members are older than the first binding, which must be recent.
func areCreatedBeforeBinding(m *placement.Members, group Group, now time.Time) bool {
	first := now
	for _, pod := range boundOf(m) {
		if hasRunLong(pod, now) {
			return false
		}
		if at := boundAt(pod); at.Before(first) {
			first = at
		}
	}
	isYounger := func(pod *corev1.Pod) bool { return pod.CreationTimestamp.After(first) }
	return !group.Created.After(first) && !slices.ContainsFunc(slices.Concat(m.Placed, m.Waiting), isYounger)
}

// hasRunLong reports whether a pod may have run for so long that its work is not lost on a guess.
func hasRunLong(pod *corev1.Pod, now time.Time) bool {
	at := boundAt(pod)
	return at.IsZero() || now.Sub(at) > MaxLostRuntime
}

// boundAt returns when a pod was bound, as recorded by the API server; zero if unknown.
func boundAt(pod *corev1.Pod) time.Time {
	bound := condition.TrueOfPod(pod, corev1.PodScheduled)
	if bound == nil {
		return time.Time{}
	}
	return bound.LastTransitionTime.Time
}

// hasReleaseCondition reports whether a pod has the condition that it ends as a part of a partially bound gang.
func hasReleaseCondition(pod *corev1.Pod) bool {
	disrupted := condition.TrueOfPod(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == ReleaseReason
}

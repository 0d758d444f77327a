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

// staysHalf reports whether a gang is half placed by us, and notes it: until it is whole it stays so, whichever of its members are made
// again, and whatever its PodGroup says meanwhile. A gang that this process has ever seen whole is not half, whichever leader bound it, unless
// it has lost a member to preemption.
// Pods that nobody would make again are never ended.
func (p *Plugin) staysHalf(g gang, group *podGroup, m *members, ours []*corev1.Pod, now time.Time) bool {
	if len(m.placed) != m.bound || m.bound >= group.minMember || len(ours) == 0 || slices.ContainsFunc(ours, isNobodys) {
		return false
	}
	switch whole, partial := p.places.wholeness(g); {
	case whole:
		return false
	case partial:
		return true
	}
	isPlanned := func(pod *corev1.Pod) bool { return planOf(pod) != "" }
	half := isPart(ours, now)
	if !slices.ContainsFunc(ours, isPlanned) {
		half = isHalf(m, group, now)
	}
	if half {
		p.places.neverWhole(g)
	}
	return half
}

// placedBy are those of some bound pods that a scheduler of ours has placed.
func placedBy(scheduler string, bound []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(bound), func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName != scheduler })
}

// isNobodys reports whether a pod has no controller, which would make it again.
func isNobodys(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }

// planOf is the plan by which a member was bound, "" for one that came when the others had their places, or that an earlier version bound.
func planOf(pod *corev1.Pod) string {
	if plan := pod.Annotations[names.AnnotationGangPlan]; cycle.MembersOf(plan) > 0 {
		return plan
	}
	return ""
}

// isPart reports whether a leader has bound a part of a gang alone: of each plan that is written on the bound members some are missing. They
// may have been lost since, with a gang that was whole. Who followed it has seen that; for one who did not a gang that started a short
// while ago, is not whole and has no room counts as one that never was.
func isPart(bound []*corev1.Pod, now time.Time) bool {
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
		long = long || at.IsZero() || now.Sub(at) > mostLost
	}
	return !long || slices.ContainsFunc(bound, isToldOfHalf)
}

// isHalf reports whether some members of a gang are bound and the others never were, where no plan is written on them. A gang is bound when
// all members are there: those of a gang that was whole once and lost some are younger than the bindings of the others, as they were made in
// the place of those that are lost. Of a gang with more members than it takes nobody can tell, nor of one whose PodGroup
// has changed or come since: it may have started whole, with fewer. One whose end has begun is half, however young the others
// are by now.
func isHalf(m *members, group *podGroup, now time.Time) bool {
	want, countable := group.minMember, group.Generation <= 1 && m.gated+m.foreign == 0
	if !countable || m.bound+len(m.waiting) != want {
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

// neverWhole notes that a gang is half placed and was never whole.
func (p *places) neverWhole(g gang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(g).partial = true
}

// tear notes that a gang has lost a member to preemption: where that leaves fewer than it takes, they are half a
// gang from now on, however whole it was.
func (p *places) tear(g gang, want int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.bound.Len() > 0 && r.bound.Len() < want {
		r.whole, r.partial = false, true
	}
}

// wholeness reports whether a gang was seen whole, and whether it was found half and not whole since.
func (p *places) wholeness(g gang) (whole, partial bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.whole, r.partial
	}
	return false, false
}

// boundOf notes that a member is bound, as the API server tells, of a gang of so many: who follows it from then on knows whether it was
// ever whole.
func (p *places) boundOf(g gang, pod types.UID, node string, want int) {
	p.bind(g, pod, node)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	isWhole := r.bound.Len() >= want
	if r.refused.pod == pod || isWhole && !r.whole && (r.refused.pod == "" || r.bound.Has(r.refused.pod)) {
		r.forgive()
	}
	if isWhole {
		r.whole, r.wholeOf, r.partial, r.half = true, want, false, time.Time{}
	}
}

// wasWhole notes that a gang was whole with so many members.
func (p *places) wasWhole(g gang, members int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.record(g); !r.whole {
		r.whole, r.wholeOf = true, members
	}
}

// wholePlan is how many members the largest plan has by which a part of some pods was bound, and all of them are there; 0 for none.
func wholePlan(bound []*corev1.Pod) (members int) {
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

// plans is the plan of those members of a gang that wait for the others, and of the last that they wait for.
func (p *places) plans(g gang) *cycle.GangPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.together == nil {
		r.together = &cycle.GangPlan{}
	}
	return r.together
}

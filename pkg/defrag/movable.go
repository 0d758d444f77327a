package defrag

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// isMovable reports whether a running pod can be moved, for any waiting pod.
func (f *Facts) isMovable(pod *corev1.Pod, limits Limits) bool {
	return eviction.HoldOf(pod, eviction.Defragmentation) == "" && !isTied(pod) && f.hasRunEnough(pod, limits) && f.budgetsAllow(pod) && names.IsOurScheduler(pod.Spec.SchedulerName) &&
		!gang.MayBeMember(pod)
}

// isTied reports whether the placement of a pod depends on more than a node shows.
func isTied(pod *corev1.Pod) bool {
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
		if affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}) || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	}) || len(pod.Spec.ResourceClaims) > 0
}

// hasRunEnough reports whether a pod runs and has run long enough.
func (f *Facts) hasRunEnough(pod *corev1.Pod, limits Limits) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.StartTime != nil &&
		f.Now.Sub(pod.Status.StartTime.Time) >= limits.MinRun
}

// budgetsAllow reports whether every disruption budget of a pod allows a disruption. Moves are made one at a time, so one is enough for any number of
// moves.
func (f *Facts) budgetsAllow(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(f.Budgets, func(budget policyv1.PodDisruptionBudget) bool {
		if budget.Namespace != pod.Namespace || budget.Status.DisruptionsAllowed > 0 {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		return err != nil || selector.Matches(labels.Set(pod.Labels)) // an invalid selector protects the pod
	})
}

// outranks reports whether a pod has a higher priority than another.
func outranks(a, b *corev1.Pod) bool {
	return schedulinghelper.PodPriority(a) > schedulinghelper.PodPriority(b)
}

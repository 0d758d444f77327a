package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
)

// CountsPod reports whether a quota counts a pod: all its scopes must match. A quota with an unknown scope counts nothing, so that no wrong statement
// is made.
func CountsPod(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, scope := range quota.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		scopes = append(scopes, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	return !slices.ContainsFunc(scopes, func(scope corev1.ScopedResourceSelectorRequirement) bool { return !matchesScope(scope, pod) })
}

func matchesScope(scope corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return SelectsClass(scope, pod.Spec.PriorityClassName)
	}
	return false
}

// isBestEffort reports whether a pod requests neither CPU nor memory.
func isBestEffort(pod *corev1.Pod) bool {
	requests, limits := amounts.Requests(pod), amounts.Limits(pod)
	return requests.Cpu().IsZero() && requests.Memory().IsZero() && limits.Cpu().IsZero() && limits.Memory().IsZero()
}

// SelectsClass reports whether a scope for priority classes selects one of them.
func SelectsClass(scope corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch scope.Operator {
	case corev1.ScopeSelectorOpIn:
		return slices.Contains(scope.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(scope.Values, class)
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	}
	return class != ""
}

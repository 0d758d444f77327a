package hint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Term is a parsed required term of a pod's affinity or anti-affinity to other pods.
type Term struct {
	// Key is the topology key.
	Key        string
	namespaces []string
	// all says that a selector of namespaces may select any.
	all      bool
	selector labels.Selector
}

// TermsOf parses the terms of a pod in a namespace. A malformed term selects nothing, as in Kubernetes.
func TermsOf(terms []corev1.PodAffinityTerm, namespace string) []Term {
	out := make([]Term, 0, len(terms))
	for i := range terms {
		term := &terms[i]
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		read := Term{Key: term.TopologyKey, namespaces: term.Namespaces, all: term.NamespaceSelector != nil, selector: selector}
		if len(read.namespaces) == 0 {
			read.namespaces = []string{namespace}
		}
		out = append(out, read)
	}
	return out
}

// AnySelects reports whether one of some terms selects a pod. A namespace selector is assumed to select all namespaces.
func AnySelects(terms []Term, pod *corev1.Pod) bool {
	return slices.ContainsFunc(terms, func(term Term) bool {
		return (term.all || slices.Contains(term.namespaces, pod.Namespace)) && term.selector.Matches(labels.Set(pod.Labels))
	})
}

// Repels reports whether a pod keeps another one from nodes by its required anti-affinity.
func Repels(pod, other *corev1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return AnySelects(TermsOf(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, pod.Namespace), other)
}

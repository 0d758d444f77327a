package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// PoolOf returns the pool a node is in: its label, or [names.DefaultPool].
func PoolOf(node *corev1.Node) string {
	return cmp.Or(node.Labels[names.LabelPool], names.DefaultPool)
}

// TypeOf returns the type of a node's GPUs: the first of [names.GPUTypeLabels] that it has, else "".
func TypeOf(node *corev1.Node) string {
	for _, label := range names.GPUTypeLabels {
		if value := node.Labels[label]; value != "" && value != names.NoGPUType {
			return value
		}
	}
	return ""
}

// InterconnectOf returns how a node's GPUs are connected: [names.InterconnectNVLink], [names.InterconnectPCIe], another value of the label in lower
// case, or "" without a label. A node with an NVLink clique has NVLink, with or without the label.
func InterconnectOf(node *corev1.Node) string {
	if value := node.Labels[names.LabelInterconnect]; value != "" {
		return strings.ToLower(value)
	}
	if node.Labels[names.LabelNVIDIAClique] != "" {
		return names.InterconnectNVLink
	}
	return ""
}

// HasEnded reports whether a pod has ended, and has released its GPUs.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// BelongsToNode reports whether a pod belongs to its node: its DaemonSet would start it there again, even on a cordoned node.
func BelongsToNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, isOfFile := pod.Annotations[corev1.MirrorPodAnnotationKey] // any user can name a Node as the owner of a pod
	return isOfFile || owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// PodPool returns the pool a pod belongs to: its node selector, else its label, else [names.DefaultPool]
// for a pod that asks for GPUs. A pod that asks for none and names no pool is in no pool: "".
func PodPool(pod *corev1.Pod) string {
	if pool := cmp.Or(pod.Spec.NodeSelector[names.LabelPool], pod.Labels[names.LabelPool]); pool != "" {
		return pool
	}
	if request, _ := RequestOf(pod); request.IsZero() {
		return ""
	}
	return names.DefaultPool
}

// Types is a pod's request for types of GPUs. The zero value accepts any.
type Types struct {
	// Selected are the conditions that the node selector and the required affinity put on the labels of
	// [names.GPUTypeLabels]. A node must meet each of them, by any one of its values.
	Selected [][]string
	// Accepted are the types of [names.AnnotationGPUTypes], the preferred first. Empty accepts any.
	Accepted []string
	// Preferred are the types of the preferred affinity, the highest weight first.
	Preferred []string
}

// PodTypes reads a pod's GPU types. The error describes what is wrong with the annotation.
func PodTypes(pod *corev1.Pod) (Types, error) {
	accepted, err := acceptedTypes(pod)
	if err != nil {
		return Types{}, err
	}
	types := Types{Accepted: accepted}
	for _, label := range names.GPUTypeLabels {
		if value, ok := pod.Spec.NodeSelector[label]; ok {
			types.Selected = append(types.Selected, []string{value})
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return types, nil
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		if values := requiredTypes(required.NodeSelectorTerms); len(values) > 0 {
			types.Selected = append(types.Selected, values)
		}
	}
	types.Preferred = preferredTypes(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
	return types, nil
}

// IsAny reports whether the pod accepts every type.
func (t Types) IsAny() bool { return len(t.Selected) == 0 && len(t.Accepted) == 0 }

// AcceptedNames returns a list of types such that any acceptable node has at least one in one of its labels. It is empty exactly when the pod accepts any
// type.
func (t Types) AcceptedNames() []string {
	if len(t.Accepted) > 0 {
		return t.Accepted
	}
	if len(t.Selected) > 0 {
		return t.Selected[0]
	}
	return nil
}

// MatchesNode reports whether a node is of a type that the pod accepts. An accepted type is compared with the node's type. A selected one may be any of its
// type labels, since the selector names the label it means, and Kubernetes' own NodeAffinity requires exactly that label. A node with several models
// may be of the type of any of its GPUs: the allocator decides which.
func (t Types) MatchesNode(node *corev1.Node) bool {
	if t.matchLabels(node) {
		return true
	}
	models := ModelsOf(node)
	return len(models) > 0 && slices.ContainsFunc(models, func(product string) bool { return t.acceptsAny(append(ownTypes(node), product)) })
}

func (t Types) matchLabels(node *corev1.Node) bool {
	if len(t.Accepted) > 0 && !slices.Contains(t.Accepted, TypeOf(node)) {
		return false
	}
	for _, values := range t.Selected {
		if !carriesAny(node, values) {
			return false
		}
	}
	return true
}

func carriesAny(node *corev1.Node, types []string) bool {
	for _, label := range names.GPUTypeLabels {
		if value, ok := node.Labels[label]; ok && slices.Contains(types, value) {
			return true
		}
	}
	return false
}

// acceptedTypes reads the annotation. It does not quote in full what is longer than a label can be.
func acceptedTypes(pod *corev1.Pod) ([]string, error) {
	value, ok := pod.Annotations[names.AnnotationGPUTypes]
	if !ok {
		return nil, nil
	}
	if count := strings.Count(value, ",") + 1; count > names.MaxGPUTypes {
		return nil, fmt.Errorf("annotation %s has %d types, want at most %d: leave it out to accept any",
			names.AnnotationGPUTypes, count, names.MaxGPUTypes)
	}
	types := strings.Split(value, ",")
	for i := range types {
		if types[i] = strings.TrimSpace(types[i]); types[i] == "" {
			return nil, fmt.Errorf("annotation %s is %.100q, want types separated by commas, such as %q",
				names.AnnotationGPUTypes, value, "A100-80G,A800-80G")
		}
		if len(content.IsLabelValue(types[i])) > 0 {
			return nil, fmt.Errorf("annotation %s has type %.100q, which no node label can hold: "+
				"use at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends",
				names.AnnotationGPUTypes, types[i], content.LabelValueMaxLength)
		}
	}
	return types, nil
}

// requiredTypes returns the types of which a node must have one. Terms are alternatives, so a term without a condition on the type admits any.
//
// More than [names.MaxGPUTypes] in all count as any. That keeps Filter correct: these conditions only narrow the candidates down, and Kubernetes' own
// NodeAffinity checks each node, whatever their number.
func requiredTypes(terms []corev1.NodeSelectorTerm) []string {
	var types []string
	for i := range terms {
		values := conditionTypes(&terms[i])
		if len(values) == 0 {
			return nil
		}
		if types = append(types, values...); len(types) > names.MaxGPUTypes {
			return nil
		}
	}
	return types
}

// preferredTypes returns the preferred types, the highest weight first, at most [names.MaxGPUTypes].
func preferredTypes(terms []corev1.PreferredSchedulingTerm) []string {
	byWeight := slices.Clone(terms)
	slices.SortStableFunc(byWeight, func(a, b corev1.PreferredSchedulingTerm) int {
		return cmp.Compare(b.Weight, a.Weight)
	})
	var types []string
	for i := range byWeight {
		types = append(types, conditionTypes(&byWeight[i].Preference)...)
		if len(types) >= names.MaxGPUTypes {
			return types[:names.MaxGPUTypes]
		}
	}
	return types
}

// conditionTypes returns the values of a term's first condition of the form "type label In (...)", or none if they are too
// many, or one of them is too long to be on a node.
func conditionTypes(term *corev1.NodeSelectorTerm) []string {
	for i := range term.MatchExpressions {
		condition := &term.MatchExpressions[i]
		if condition.Operator == corev1.NodeSelectorOpIn && slices.Contains(names.GPUTypeLabels, condition.Key) {
			if len(condition.Values) > names.MaxGPUTypes || slices.ContainsFunc(condition.Values, tooLong) {
				return nil
			}
			return condition.Values
		}
	}
	return nil
}

func tooLong(value string) bool { return len(value) > content.LabelValueMaxLength }

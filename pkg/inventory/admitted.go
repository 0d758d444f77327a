package inventory

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// withAdmittedGPUs returns the pod of a template with the GPUs that the API server added to the newest of its pods, as a LimitRange does for containers
// that request none. GPUs in the template take precedence: pods from before an edit may have other requests.
func withAdmittedGPUs(template *corev1.Pod, pods []corev1.Pod) *corev1.Pod {
	newest := -1
	for i := range pods {
		if newest < 0 || pods[newest].CreationTimestamp.Before(&pods[i].CreationTimestamp) {
			newest = i
		}
	}
	if newest < 0 {
		return template
	}
	out := template.DeepCopy()
	copyMissingGPUs(out.Spec.InitContainers, pods[newest].Spec.InitContainers)
	copyMissingGPUs(out.Spec.Containers, pods[newest].Spec.Containers)
	return out
}

// copyMissingGPUs copies GPUs that containers of the same names have and these do not request.
func copyMissingGPUs(containers, admitted []corev1.Container) {
	for i := range containers {
		at := slices.IndexFunc(admitted, func(c corev1.Container) bool { return c.Name == containers[i].Name })
		if at < 0 {
			continue
		}
		resources, given := &containers[i].Resources, &admitted[at].Resources
		named := maps.Clone(resources.Limits)
		if named == nil {
			named = corev1.ResourceList{}
		}
		maps.Copy(named, resources.Requests)
		resources.Limits = withGPUs(resources.Limits, given.Limits, named)
		resources.Requests = withGPUs(resources.Requests, given.Requests, named)
	}
}

// withGPUs adds to a list the GPUs of another one that it does not have.
func withGPUs(list, given, named corev1.ResourceList) corev1.ResourceList {
	for name, amount := range given {
		if _, says := named[name]; says || !names.IsGPU(name) {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount
	}
	return list
}

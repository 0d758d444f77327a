package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Default is a resource that a LimitRange gives containers that do not name it.
type Default struct {
	// Range is the name of the LimitRange, Resource the given resource, and Amount its amount.
	Range    string
	Resource corev1.ResourceName
	Amount   resource.Quantity
	// Forced says that a LimitRange refuses containers that request none.
	Forced bool
}

// GPUDefaults returns the GPUs that LimitRanges give containers which name none, each resource once. A maximum alone is also a default: the API
// server stores it as one.
func GPUDefaults(ranges []corev1.LimitRange) []Default {
	var out []Default
	for i := range ranges {
		for _, item := range containerItems(&ranges[i]) {
			for _, given := range []corev1.ResourceList{item.Default, item.DefaultRequest} {
				for name, amount := range given {
					known := slices.ContainsFunc(out, func(d Default) bool { return d.Resource == name })
					if names.IsGPU(name) && amount.Sign() > 0 && !known {
						out = append(out, Default{Range: ranges[i].Name, Resource: name, Amount: amount, Forced: minimumRequest(ranges, name) > 0})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Default) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return out
}

// Warning explains the effect on a job that does not name the resource.
func (d *Default) Warning() phrase.Text {
	out := phrase.Textf("limit range %s gives containers that do not ask for %s %s of it", d.Range, d.Resource, &d.Amount)
	if d.Forced {
		return out.Addf(", and refuses those that ask for none: the pods of this job get it")
	}
	return out.Addf(": gpuctl asks for 0, so that the pods of this job get none. Pods of other tools have to, as well")
}

// containerItems returns the items of a LimitRange for containers.
func containerItems(limits *corev1.LimitRange) []corev1.LimitRangeItem {
	return slices.DeleteFunc(slices.Clone(limits.Spec.Limits), func(item corev1.LimitRangeItem) bool {
		return item.Type != corev1.LimitTypeContainer
	})
}

// minimumRequest returns the minimum of a resource that each container has to request.
func minimumRequest(ranges []corev1.LimitRange, name corev1.ResourceName) int64 {
	least := int64(0)
	for i := range ranges {
		for _, item := range containerItems(&ranges[i]) {
			amount := item.Min[name]
			least = max(least, amount.Value())
		}
	}
	return least
}

// WithLimitRangeDefaults returns a pod as the API server admits it: with the defaults of LimitRanges.
func WithLimitRangeDefaults(pod *corev1.Pod, ranges []corev1.LimitRange) *corev1.Pod {
	out := withDefaultRequests(pod)
	for i := range ranges {
		for _, item := range containerItems(&ranges[i]) {
			for _, containers := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
				for j := range containers {
					resources := &containers[j].Resources
					resources.Limits = fillMissing(resources.Limits, item.Default)
					resources.Requests = fillMissing(resources.Requests, item.DefaultRequest)
				}
			}
		}
	}
	return withDefaultRequests(out)
}

// fillMissing adds the missing entries of a list.
func fillMissing(list, defaults corev1.ResourceList) corev1.ResourceList {
	for name, amount := range defaults {
		if _, says := list[name]; says {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount
	}
	return list
}

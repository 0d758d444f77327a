package inventory

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Limits are the bounds on the pods of a namespace other than gpuctl's own quota, created by others with kubectl.
type Limits struct {
	OtherQuotas []OtherQuota `json:"otherQuotas,omitempty"`
	LimitRanges []LimitRange `json:"limitRanges,omitempty"`
}

// OtherQuota is a ResourceQuota that gpuctl did not make.
type OtherQuota struct {
	Name string `json:"name"`
	// Scopes say which pods it counts; none are all.
	Scopes    []string          `json:"scopes,omitempty"`
	Resources []OtherQuotaBound `json:"resources"`
}

// OtherQuotaBound is one bound, under Kubernetes' own name.
type OtherQuotaBound struct {
	QuotaResource
	// Note explains why the bound has no effect, "" if it has.
	Note string `json:"note,omitempty"`
}

// LimitRange is the limit of a LimitRange on one resource of one kind.
type LimitRange struct {
	Name string `json:"name"`
	// Type is Container, Pod or PersistentVolumeClaim.
	Type     string `json:"type"`
	Resource string `json:"resource"`
	// Min and Max bound a request; Default is the default limit, and DefaultRequest the default request.
	Min            *resource.Quantity `json:"min,omitempty"`
	Max            *resource.Quantity `json:"max,omitempty"`
	Default        *resource.Quantity `json:"default,omitempty"`
	DefaultRequest *resource.Quantity `json:"defaultRequest,omitempty"`
}

func buildLimits(quotas []corev1.ResourceQuota, ranges []corev1.LimitRange) Limits {
	var out Limits
	for i := range quotas {
		if quotas[i].Labels[names.LabelQuota] == "" {
			out.OtherQuotas = append(out.OtherQuotas, otherQuota(&quotas[i]))
		}
	}
	slices.SortFunc(out.OtherQuotas, func(a, b OtherQuota) int { return cmp.Compare(a.Name, b.Name) })
	for i := range ranges {
		for j := range ranges[i].Spec.Limits {
			out.LimitRanges = append(out.LimitRanges, limitRanges(ranges[i].Name, &ranges[i].Spec.Limits[j])...)
		}
	}
	slices.SortFunc(out.LimitRanges, func(a, b LimitRange) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

func otherQuota(quota *corev1.ResourceQuota) OtherQuota {
	out := OtherQuota{Name: quota.Name, Resources: []OtherQuotaBound{}}
	for _, scope := range quota.Spec.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	for name, hard := range quota.Spec.Hard {
		bound := OtherQuotaBound{QuotaResource: QuotaResource{Resource: string(name), Used: quota.Status.Used[name], Hard: hard}}
		if countsNothing(name) {
			bound.Note = "counts nothing: bound requests." + strings.TrimPrefix(string(name), "limits.")
		}
		out.Resources = append(out.Resources, bound)
	}
	slices.SortFunc(out.Resources, func(a, b OtherQuotaBound) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// countsNothing reports whether a quota accepts a bound that it never counts: that of a device under its own name, or of its limits.
func countsNothing(name corev1.ResourceName) bool {
	device := strings.TrimPrefix(string(name), "limits.")
	return strings.HasPrefix(device, "nvidia.com/") || device == names.ResourceSharedGPU
}

func limitRanges(name string, item *corev1.LimitRangeItem) []LimitRange {
	byResource := map[corev1.ResourceName]*LimitRange{}
	put := func(list corev1.ResourceList, to func(*LimitRange) **resource.Quantity) {
		for resource, quantity := range list {
			if byResource[resource] == nil {
				byResource[resource] = &LimitRange{Name: name, Type: string(item.Type), Resource: string(resource)}
			}
			*to(byResource[resource]) = &quantity
		}
	}
	put(item.Min, func(l *LimitRange) **resource.Quantity { return &l.Min })
	put(item.Max, func(l *LimitRange) **resource.Quantity { return &l.Max })
	put(item.Default, func(l *LimitRange) **resource.Quantity { return &l.Default })
	put(item.DefaultRequest, func(l *LimitRange) **resource.Quantity { return &l.DefaultRequest })
	out := make([]LimitRange, 0, len(byResource))
	for _, limit := range byResource {
		out = append(out, *limit)
	}
	return out
}

package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Quota is gpuctl's quota for one namespace.
type Quota struct {
	// Name is that of the quota document, which may bound several namespaces.
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	Description string `json:"description,omitempty"`
	// Resources are the bounds, sorted by resource.
	Resources []QuotaResource `json:"resources"`
}

// QuotaResource is one bound of a quota.
type QuotaResource struct {
	// Resource is what is bounded, such as nvidia.com/gpu or cpu. Kubernetes counts most as requests.<resource>.
	Resource string `json:"resource"`
	// Used is what the pods of the namespace have reserved; zero until Kubernetes has counted.
	Used resource.Quantity `json:"used"`
	Hard resource.Quantity `json:"hard"`
}

// ResourceBound returns the bound of a resource.
func (q Quota) ResourceBound(name string) (QuotaResource, bool) {
	return findFirst(q.Resources, func(r QuotaResource) bool { return r.Resource == name })
}

// managedQuotas are the quotas that gpuctl has made.
func managedQuotas(quotas []corev1.ResourceQuota) []corev1.ResourceQuota {
	return slices.DeleteFunc(slices.Clone(quotas), func(quota corev1.ResourceQuota) bool { return quota.Labels[names.LabelQuota] == "" })
}

func buildQuotas(quotas []corev1.ResourceQuota) []Quota {
	out := make([]Quota, 0, len(quotas))
	for i := range quotas {
		out = append(out, QuotaOf(&quotas[i]))
	}
	slices.SortFunc(out, func(a, b Quota) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// QuotaOf is what an object of gpuctl bounds its namespace by.
func QuotaOf(quota *corev1.ResourceQuota) Quota {
	row := Quota{
		Name: quota.Labels[names.LabelQuota], Namespace: quota.Namespace,
		Description: quota.Annotations[names.AnnotationDescription], Resources: []QuotaResource{},
	}
	for name, hard := range quota.Spec.Hard {
		row.Resources = append(row.Resources, QuotaResource{
			Resource: strings.TrimPrefix(string(name), "requests."), Used: quota.Status.Used[name], Hard: hard,
		})
	}
	slices.SortFunc(row.Resources, func(a, b QuotaResource) int { return cmp.Compare(a.Resource, b.Resource) })
	return row
}

// Namespace is a namespace with its quota.
type Namespace struct {
	Name string `json:"name"`
	// Status is Active or Terminating.
	Status string `json:"status"`
	// Managed is true if gpuctl created the namespace, and may delete it.
	Managed bool              `json:"managed"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"labels,omitempty"`
	Quota   *Quota            `json:"quota,omitempty"`
}

// NamespaceOf is a namespace, its quota left out.
func NamespaceOf(namespace *corev1.Namespace) Namespace {
	return Namespace{
		Name: namespace.Name, Status: string(namespace.Status.Phase), Created: namespace.CreationTimestamp.Time,
		Managed: namespace.Labels[names.LabelNamespace] == names.True, Labels: namespace.Labels,
	}
}

func buildNamespaces(namespaces []corev1.Namespace, quotas []Quota) []Namespace {
	out := make([]Namespace, 0, len(namespaces))
	for i := range namespaces {
		row := NamespaceOf(&namespaces[i])
		if quota, ok := findFirst(quotas, func(q Quota) bool { return q.Namespace == row.Name }); ok {
			row.Quota = &quota
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

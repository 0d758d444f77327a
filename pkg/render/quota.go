package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// QuotaName is the name of every ResourceQuota that gpuctl creates. With a single name, the API server itself refuses a second quota in a namespace;
// the document's name is in the label g8s.host/quota.
const QuotaName = "gpuctl-quota"

// Quota returns, for each namespace of a quota in order, the Namespace followed by the ResourceQuota. The namespace default exists in every cluster
// and is left out. A Namespace is only for creating a missing one: its labels say that gpuctl created it, and must not be written to an existing one.
func Quota(q *workload.Quota) []client.Object {
	var out []client.Object
	for i := range q.Namespaces {
		n := &q.Namespaces[i]
		if n.Namespace != corev1.NamespaceDefault {
			out = append(out, newNamespace(n.Namespace))
		}
		out = append(out, resourceQuota(q, n))
	}
	return out
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			names.LabelManagedBy: names.ManagedByGpuctl,
			names.LabelNamespace: names.True,
			// Only at creation: administrators may lower it, and it is never written to an existing namespace.
			names.LabelPodSecurityEnforce: names.PodSecurityBaseline,
			names.LabelPodSecurityWarn:    names.PodSecurityBaseline,
		}},
	}
}

func resourceQuota(q *workload.Quota, n *workload.NamespaceQuota) *corev1.ResourceQuota {
	out := &corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: QuotaName, Namespace: n.Namespace, Labels: map[string]string{
			names.LabelManagedBy: names.ManagedByGpuctl,
			names.LabelQuota:     q.Name,
		}},
		Spec: corev1.ResourceQuotaSpec{Hard: hardLimits(n)},
	}
	if q.Description != "" {
		out.Annotations = map[string]string{names.AnnotationDescription: q.Description}
	}
	return out
}

// requestsPrefix is the prefix under which a ResourceQuota counts extended resources. It accepts their plain names but does not count them.
const requestsPrefix = "requests."

// hardLimits returns the bounds under Kubernetes' names. Memory limits are bounded, too: a container that reserves little and uses much would take
// memory from its neighbours. CPU needs no such bound, because neighbours get back what they reserved.
func hardLimits(n *workload.NamespaceQuota) corev1.ResourceList {
	out := corev1.ResourceList{}
	count := func(value *int64, name corev1.ResourceName) {
		if value != nil {
			out[name] = *resource.NewQuantity(*value, resource.DecimalSI)
		}
	}
	amount := func(value *resource.Quantity, all ...corev1.ResourceName) {
		for _, name := range all {
			if value != nil {
				out[name] = *value
			}
		}
	}
	count(n.GPU, requestsPrefix+names.ResourceGPU)
	count(n.SharedGPU, requestsPrefix+names.ResourceSharedGPU)
	for _, slices := range n.MIG {
		count(&slices.Count, requestsPrefix+names.ResourceMIGPrefix+corev1.ResourceName(slices.Profile))
	}
	count(n.Pods, corev1.ResourcePods)
	amount(n.CPU, corev1.ResourceRequestsCPU)
	amount(n.Memory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory)
	amount(n.Storage, corev1.ResourceRequestsStorage)
	return out
}

package inventory

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Snapshot is the whole cluster at one moment, for a server that answers many from memory. It is only read.
type Snapshot struct {
	Cluster
	// NodeObjects and the others are as Kubernetes has them, in no order.
	NodeObjects []corev1.Node
	PodObjects  []corev1.Pod
	JobObjects  []batchv1.Job
	// Namespaces are sorted by name, Quotas by name and namespace.
	Namespaces []Namespace
	Quotas     []Quota
}

// Mirror calls changed with the cluster as it is and then after every burst of changes, until ctx ends; changed is
// never called twice at a time. Beside the watches it makes no requests.
func (r *Reader) Mirror(ctx context.Context, changed func(Snapshot)) error {
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = JobQuery{}.selector() }
	refused := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("reason", reasonFailedCreate).String()
	}
	all := func(*metav1.ListOptions) {}
	core := r.client.CoreV1().RESTClient()
	stores := watchAll(ctx, metav1.NamespaceAll, []source{
		{core, "nodes", &corev1.Node{}, all},
		{core, "pods", &corev1.Pod{}, all},
		{r.client.BatchV1().RESTClient(), "jobs", &batchv1.Job{}, labelled},
		{r.client.AppsV1().RESTClient(), "deployments", &appsv1.Deployment{}, labelled},
		{core, "events", &corev1.Event{}, refused},
		{core, "namespaces", &corev1.Namespace{}, all},
		{core, "resourcequotas", &corev1.ResourceQuota{}, all},
	})
	return stores.each(ctx, func() {
		objects := Objects{
			Nodes:       contents[corev1.Node](stores.stores[0]),
			Pods:        contents[corev1.Pod](stores.stores[1]),
			Jobs:        contents[batchv1.Job](stores.stores[2]),
			Deployments: contents[appsv1.Deployment](stores.stores[3]),
			Events:      contents[corev1.Event](stores.stores[4]),
			Quotas:      contents[corev1.ResourceQuota](stores.stores[6]),
		}
		quotas := buildQuotas(slices.DeleteFunc(slices.Clone(objects.Quotas), func(quota corev1.ResourceQuota) bool {
			return quota.Labels[names.LabelQuota] == ""
		}))
		changed(Snapshot{
			Cluster:     Build(objects),
			NodeObjects: objects.Nodes,
			PodObjects:  objects.Pods,
			JobObjects:  objects.Jobs,
			Namespaces:  buildNamespaces(contents[corev1.Namespace](stores.stores[5]), quotas),
			Quotas:      quotas,
		})
	})
}

package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// kueueVersions are the versions of Kueue's API, the newest first.
var kueueVersions = []string{"v1beta2", "v1beta1"}

// labelKueueJob is the UID of the object that a Workload of Kueue is for.
const labelKueueJob = "kueue.x-k8s.io/job-uid"

// KueueWorkloads queries the Workloads of Kueue for an object. A cluster without Kueue returns NotFound.
func KueueWorkloads(namespace string, owner types.UID) Query {
	absent := apierrors.NewNotFound(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "")
	return Query{part: PartKueueWorkloads, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) (err error) {
		for _, version := range kueueVersions {
			path := "/apis/kueue.x-k8s.io/" + version + "/namespaces/" + namespace + "/workloads"
			request, failed := newAPIRequest(client, path, &metav1.ListOptions{LabelSelector: labelKueueJob + "=" + string(owner)}, absent)
			if failed != nil {
				return failed
			}
			list := &unstructured.UnstructuredList{}
			if err = decodeList(ctx, request, PartKueueWorkloads, list); err == nil {
				s.KueueWorkloads = list.Items
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return err
	}}
}

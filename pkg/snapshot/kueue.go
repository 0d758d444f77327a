package snapshot

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// kueueVersions are the versions of Kueue's API, the newest first.
var kueueVersions = []string{"v1beta2", "v1beta1"}

// kueueTimeout bounds what a webhook of Kueue that does not answer costs a list of jobs.
const kueueTimeout = 3 * time.Second

// KueueWorkloads queries the Workloads of Kueue in a namespace, "" for all. A cluster without Kueue returns NotFound, and so does one whose Kueue
// fails: the lists of its kinds need its webhooks, and those of all others do not.
func KueueWorkloads(namespace string) Query {
	absent := apierrors.NewNotFound(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "")
	return Query{part: PartKueueWorkloads, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		within, cancel := context.WithTimeout(ctx, kueueTimeout)
		defer cancel()
		for _, version := range kueueVersions {
			path := "/apis/kueue.x-k8s.io/" + version
			if namespace != "" {
				path += "/namespaces/" + namespace
			}
			request, failed := newAPIRequest(client, path+"/workloads", &metav1.ListOptions{}, absent)
			if failed != nil {
				return failed
			}
			list := &unstructured.UnstructuredList{}
			err := decodeList(within, request, PartKueueWorkloads, list)
			if err == nil {
				s.KueueWorkloads = list.Items
			}
			switch {
			case err == nil || apierrors.IsForbidden(err) || ctx.Err() != nil:
				return err
			case !apierrors.IsNotFound(err):
				return absent // the other version has the same webhooks
			}
		}
		return absent
	}}
}

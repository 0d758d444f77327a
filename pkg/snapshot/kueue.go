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

// kueueTimeout bounds what a webhook of Kueue that does not answer costs a list of jobs; kueueWholeTimeout is for all Workloads at once, which are
// read where a webhook has answered before.
const (
	kueueTimeout      = 3 * time.Second
	kueueWholeTimeout = 10 * time.Second
)

// KueueWorkloads queries the Workloads of Kueue in a namespace, "" for all. A cluster without Kueue returns NotFound, and so does one whose Kueue
// fails: the lists of its kinds need its webhooks, and those of all others do not.
func KueueWorkloads(namespace string) Query {
	absent := apierrors.NewNotFound(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "")
	return Query{part: PartKueueWorkloads, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		for _, version := range kueueVersions {
			path := "/apis/kueue.x-k8s.io/" + version
			if namespace != "" {
				path += "/namespaces/" + namespace
			}
			items, err := listWorkloads(ctx, client, path+"/workloads", absent)
			if err == nil {
				s.KueueWorkloads = items
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

// listWorkloads reads all Workloads of a path page by page: those of ended jobs stay, so that a cluster has tens of thousands. What was read is not
// complete if the snapshot of the pages is gone before the last one, and then all is read at once.
func listWorkloads(ctx context.Context, client kubernetes.Interface, path string, absent error) ([]unstructured.Unstructured, error) {
	all, goes, err := listWorkloadPages(ctx, client, path, absent)
	if goes && apierrors.IsResourceExpired(err) {
		within, cancel := context.WithTimeout(ctx, kueueWholeTimeout)
		defer cancel()
		whole, err := listWorkloadPage(within, client, path, &metav1.ListOptions{}, absent)
		if err != nil {
			return nil, err
		}
		return whole.Items, nil
	}
	return all, err
}

// listWorkloadPages reads the pages, all within one limit; goes is whether there was a first one.
func listWorkloadPages(ctx context.Context, client kubernetes.Interface, path string, absent error) (all []unstructured.Unstructured, goes bool, err error) {
	within, cancel := context.WithTimeout(ctx, kueueTimeout)
	defer cancel()
	options := metav1.ListOptions{Limit: listPageSize}
	for {
		page, err := listWorkloadPage(within, client, path, &options, absent)
		if err != nil {
			return nil, options.Continue != "", err
		}
		all = append(all, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, true, nil
		}
	}
}

func listWorkloadPage(ctx context.Context, client kubernetes.Interface, path string, options *metav1.ListOptions, absent error) (*unstructured.UnstructuredList, error) {
	request, err := newAPIRequest(client, path, options, absent)
	if err != nil {
		return nil, err
	}
	page := &unstructured.UnstructuredList{}
	return page, decodeList(ctx, request, PartKueueWorkloads, page)
}

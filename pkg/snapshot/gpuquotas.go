package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const gpuQuotasPath = "/apis/" + names.GroupName + "/v1alpha1/gpuquotas"

// errNoGPUQuotas is the response of a cluster without the kind.
var errNoGPUQuotas = apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: "gpuquotas"}, "")

// GPUQuotas queries the guarantees and limits of GPUs at one moment. It is never watched.
func GPUQuotas() Query {
	return Query{part: PartGPUQuotas, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		request, err := newAPIRequest(client, gpuQuotasPath, &metav1.ListOptions{ResourceVersion: "0"}, errNoGPUQuotas)
		if err != nil {
			return err
		}
		var list names.GPUQuotaList
		if err := decodeList(ctx, request, PartGPUQuotas, &list); err != nil {
			return err
		}
		s.GPUQuotas = append([]names.GPUQuota{}, list.Items...)
		return nil
	}}
}

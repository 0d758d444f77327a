package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const spotPoolsPath = "/apis/" + names.GroupName + "/v1alpha1/spotpools"

// errNoSpotPools is the answer of a cluster that does not know them.
var errNoSpotPools = apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: "spotpools"}, "")

// SpotPools wants what keeps machines of clouds, which are read as they are at a moment and never watched. A cluster that does
// not know such objects is an error of NotFound.
func SpotPools() Want {
	return Want{part: PartSpotPools, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		request, err := requestOf(client, spotPoolsPath, &metav1.ListOptions{ResourceVersion: "0"}, errNoSpotPools)
		if err != nil {
			return err
		}
		var list names.SpotPoolList
		if err := decoded(ctx, request, PartSpotPools, &list); err != nil {
			return err
		}
		s.SpotPools = append([]names.SpotPool{}, list.Items...)
		return nil
	}}
}

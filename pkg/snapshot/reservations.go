package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const gpuReservationsPath = "/apis/" + names.GroupName + "/v1alpha1/gpureservations"

// errNoGPUReservations is the answer of a cluster that does not know them.
var errNoGPUReservations = apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: "gpureservations"}, "")

// GPUReservations wants which nodes are kept, for whom and when, as it is at a moment. It is never watched. A cluster need not know
// such objects, and a user need not see them: then the part is unread.
func GPUReservations() Want {
	return Want{part: PartGPUReservations, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		request, err := requestOf(client, gpuReservationsPath, &metav1.ListOptions{ResourceVersion: "0"}, errNoGPUReservations)
		if err != nil {
			return err
		}
		var list names.GPUReservationList
		if err := decoded(ctx, request, PartGPUReservations, &list); err != nil {
			return err
		}
		s.GPUReservations = append([]names.GPUReservation{}, list.Items...)
		return nil
	}}.IfAllowed()
}

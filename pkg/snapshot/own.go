package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// SpotPools wants what keeps machines of clouds, which are read as they are at a moment and never watched. A cluster that does
// not know such objects is an error of NotFound.
func SpotPools() Want {
	return own(PartSpotPools, "spotpools", func(s *Snapshot, list *names.SpotPoolList) {
		s.SpotPools = append([]names.SpotPool{}, list.Items...)
	})
}

// GPUReservations wants which nodes are kept, for whom and when, as it is at a moment. It is never watched. A cluster that does not
// know such objects is an error of NotFound.
func GPUReservations() Want {
	return own(PartGPUReservations, "gpureservations", func(s *Snapshot, list *names.GPUReservationList) {
		s.GPUReservations = append([]names.GPUReservation{}, list.Items...)
	})
}

// own wants all objects of one of our own kinds, which has no namespaces, from the API server's memory; keep puts the list into a
// snapshot.
func own[L any](part Part, resource string, keep func(*Snapshot, *L)) Want {
	path := "/apis/" + names.SchemeGroupVersion.String() + "/" + resource
	absent := apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: resource}, "")
	return Want{part: part, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		request, err := requestOf(client, path, &metav1.ListOptions{ResourceVersion: "0"}, absent)
		if err != nil {
			return err
		}
		list := new(L)
		if err := decoded(ctx, request, part, list); err != nil {
			return err
		}
		keep(s, list)
		return nil
	}}
}

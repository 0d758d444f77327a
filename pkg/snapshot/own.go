package snapshot

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// SpotPools queries the pools of cloud machines, which are read at one moment and never watched. A cluster without the kind returns NotFound.
func SpotPools() Query {
	return queryOwnKind(PartSpotPools, "spotpools", func(s *Snapshot, list *names.SpotPoolList) {
		s.SpotPools = append([]names.SpotPool{}, list.Items...)
	})
}

// GPUReservations queries the node reservations at one moment. It is never watched. A cluster without the kind returns NotFound.
func GPUReservations() Query {
	return queryOwnKind(PartGPUReservations, "gpureservations", func(s *Snapshot, list *names.GPUReservationList) {
		s.GPUReservations = append([]names.GPUReservation{}, list.Items...)
	})
}

// queryOwnKind queries all objects of one of our own cluster-scoped kinds, from the API server's cache; keep stores the list in a snapshot.
func queryOwnKind[L any](part Part, resource string, keep func(*Snapshot, *L)) Query {
	path := "/apis/" + names.SchemeGroupVersion.String() + "/" + resource
	absent := apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: resource}, "")
	return Query{part: part, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		request, err := newAPIRequest(client, path, &metav1.ListOptions{ResourceVersion: "0"}, absent)
		if err != nil {
			return err
		}
		list := new(L)
		if err := decodeList(ctx, request, part, list); err != nil {
			return err
		}
		keep(s, list)
		return nil
	}}
}

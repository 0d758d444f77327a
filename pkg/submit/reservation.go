package submit

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// reservationPrefix is the name prefix of reservations.
const reservationPrefix = "gpuctl-job-"

// newNameReservation returns the Lease that reserves the name of a job. Different kinds of jobs create objects of different kinds and names, so the
// API server alone would allow a training job and a notebook of the same name at the same moment; of this Lease only one can exist. The job's top
// object owns it, so that Kubernetes deletes it with the job, whoever deletes the job.
func newNameReservation(top client.Object) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: top.GetNamespace(), Name: reservationPrefix + jobNameOf(top),
			Labels: map[string]string{
				names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: jobNameOf(top), names.LabelJobType: jobKindOf(top),
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(jobKindOf(top) + "/" + jobNameOf(top))},
	}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	return lease
}

// reserveAttempts is how often an orphaned reservation is deleted before giving up.
const reserveAttempts = 5

// reserveName reserves the name of a job for its existing top object. It returns an [ExistsError] if another job has the name. A reservation whose
// owner is gone is ignored. It returns the created Lease, nil if the job already had its name.
//
// A user who may not write Leases has no reservation: then only the check before the creation keeps names unique.
func (c *Client) reserveName(ctx context.Context, top client.Object) (client.Object, error) {
	for attempt := 1; ; attempt++ {
		lease := newNameReservation(top)
		made, err := c.createPart(ctx, top, lease)
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil
		case err == nil && made:
			return lease, nil
		case err == nil || !errors.As(err, new(*ExistsError)):
			return nil, err
		}
		held, current, err := c.readHolder(ctx, lease)
		if err != nil {
			return nil, err
		}
		if held != nil || attempt == reserveAttempts {
			return nil, holderError(current)
		}
		if current == nil {
			continue
		}
		if err := c.removeObject(ctx, current); err != nil {
			return nil, err
		}
	}
}

// readHolder reads a reservation, and the top object that owns it. Either is nil if it does not exist.
func (c *Client) readHolder(ctx context.Context, lease client.Object) (holder, current *unstructured.Unstructured, err error) {
	if current, err = c.readObject(ctx, lease); err != nil || current == nil {
		return nil, nil, err
	}
	if !isOurs(current) {
		return current, current, nil // a foreign Lease must not be deleted
	}
	references := current.GetOwnerReferences()
	if len(references) == 0 {
		return nil, current, nil
	}
	owner := references[0]
	like := &unstructured.Unstructured{}
	like.SetAPIVersion(owner.APIVersion)
	like.SetKind(owner.Kind)
	like.SetNamespace(current.GetNamespace())
	like.SetName(owner.Name)
	if holder, err = c.readObject(ctx, like); err != nil || holder == nil || holder.GetUID() != owner.UID {
		return nil, current, err
	}
	return holder, current, nil
}

// holderError describes the owner of a reservation.
func holderError(current *unstructured.Unstructured) *ExistsError {
	exists := newExistsError(current)
	if references := current.GetOwnerReferences(); exists.Name != "" && len(references) > 0 {
		exists.Object = references[0].Kind + " " + references[0].Name
	}
	return exists
}

// isNameReserved reports whether a job has reserved its name. It returns true if the user may not read the reservation.
func (c *Client) isNameReserved(ctx context.Context, top client.Object) (bool, error) {
	current, err := c.readObject(ctx, newNameReservation(top))
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return err == nil && current != nil && isOwned(current, top), err
}

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

// reservation returns the Lease that reserves the name of a job. Different kinds of jobs create objects of different kinds and names, so the
// API server alone would allow a training job and a notebook of the same name at the same moment; of this Lease only one can exist. The job's top
// object owns it, so that Kubernetes deletes it with the job, whoever deletes the job.
func reservation(top client.Object) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: top.GetNamespace(), Name: reservationPrefix + jobOf(top),
			Labels: map[string]string{
				names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: jobOf(top), names.LabelJobType: kindOf(top),
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(kindOf(top) + "/" + jobOf(top))},
	}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	return lease
}

// reserveAttempts is how often an orphaned reservation is deleted before giving up.
const reserveAttempts = 5

// reserve reserves the name of a job for its existing top object. It returns an [ExistsError] if another job has the name. A reservation whose
// owner is gone is ignored. It returns the created Lease, nil if the job already had its name.
//
// A user who may not write Leases has no reservation: then only the check before the creation keeps names unique.
func (c *Client) reserve(ctx context.Context, top client.Object) (client.Object, error) {
	for attempt := 1; ; attempt++ {
		lease := reservation(top)
		made, err := c.createPart(ctx, top, lease)
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil
		case err == nil && made:
			return lease, nil
		case err == nil || !errors.As(err, new(*ExistsError)):
			return nil, err
		}
		held, current, err := c.holder(ctx, lease)
		if err != nil {
			return nil, err
		}
		if held != nil || attempt == reserveAttempts {
			return nil, heldBy(current)
		}
		if current == nil {
			continue
		}
		if err := c.remove(ctx, current); err != nil {
			return nil, err
		}
	}
}

// holder reads a reservation, and the top object that owns it. Either is nil if it does not exist.
func (c *Client) holder(ctx context.Context, lease client.Object) (holder, current *unstructured.Unstructured, err error) {
	if current, err = c.read(ctx, lease); err != nil || current == nil {
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
	if holder, err = c.read(ctx, like); err != nil || holder == nil || holder.GetUID() != owner.UID {
		return nil, current, err
	}
	return holder, current, nil
}

// heldBy describes the owner of a reservation.
func heldBy(current *unstructured.Unstructured) *ExistsError {
	exists := existsError(current)
	if references := current.GetOwnerReferences(); exists.Name != "" && len(references) > 0 {
		exists.Object = references[0].Kind + " " + references[0].Name
	}
	return exists
}

// isReserved reports whether a job has reserved its name. It returns true if the user may not read the reservation.
func (c *Client) isReserved(ctx context.Context, top client.Object) (bool, error) {
	current, err := c.read(ctx, reservation(top))
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return err == nil && current != nil && isOwned(current, top), err
}

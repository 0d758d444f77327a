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

// reservationPrefix begins the names of reservations.
const reservationPrefix = "gpuctl-job-"

// reservation is by what a job has its name for itself. Kinds of jobs make objects of different kinds and names, so the
// API server would let a training job and a notebook of one name be created at the same moment; of this object there can
// be only one. The job's top object owns it, so that Kubernetes removes it with the job, no matter who deletes that.
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

// reserveAttempts is how often a reservation that was left behind is removed before giving up.
const reserveAttempts = 5

// reserve takes the name of a job for its top object, which is there already: an [ExistsError] if another job has it. A
// reservation whose owner is gone holds nothing. It returns what it made, nil if the job had its name before.
//
// Who may not write Leases goes without: then only the look at what is there, before the creation, keeps names apart.
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

// holder reads a reservation, and the top object that owns it. Both are nil if they are not there.
func (c *Client) holder(ctx context.Context, lease client.Object) (holder, current *unstructured.Unstructured, err error) {
	if current, err = c.read(ctx, lease); err != nil || current == nil {
		return nil, nil, err
	}
	if !isOurs(current) {
		return current, current, nil // somebody else's Lease is nobody's to remove
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

// heldBy says whose a reservation is.
func heldBy(current *unstructured.Unstructured) *ExistsError {
	exists := existsError(current)
	if references := current.GetOwnerReferences(); exists.Name != "" && len(references) > 0 {
		exists.Object = references[0].Kind + " " + references[0].Name
	}
	return exists
}

// isReserved says whether a job has its name for itself. Who may not read that is told so.
func (c *Client) isReserved(ctx context.Context, top client.Object) (bool, error) {
	current, err := c.read(ctx, reservation(top))
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return err == nil && current != nil && isOwned(current, top), err
}

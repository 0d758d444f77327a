package submit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// keeperPrefix is the name prefix of keepers.
const keeperPrefix = "gpuctl-replace-"

// newKeeper returns the Lease that owns the parts of a job while the job is replaced and no Job can own them. After an interruption, this one Lease
// remains and nothing is orphaned. The next action on the job removes it: creating the job takes over the kept parts, and deleting the job deletes
// them.
func newKeeper(top client.Object) client.Object {
	lease := newNameReservation(top)
	lease.Name = keeperPrefix + jobNameOf(top)
	return lease
}

// keepParts creates the keeper of a job, and makes it an owner of the job's parts beside the top object. It returns nil if there are no parts, or if
// the user may not write Leases: then the parts have no owner for a moment.
func (c *Client) keepParts(ctx context.Context, top client.Object, parts []*unstructured.Unstructured) (client.Object, error) {
	if !slices.ContainsFunc(parts, func(part *unstructured.Unstructured) bool { return part != nil }) {
		return nil, nil
	}
	made := newKeeper(top)
	err := c.createOne(ctx, made)
	switch {
	case apierrors.IsForbidden(err):
		return nil, c.setOwners(ctx, parts)
	case errors.As(err, new(*ExistsError)): // left by an interrupted client, or used by a concurrent one
		if made, err = c.readKeeper(ctx, top); err == nil && made == nil {
			return nil, c.setOwners(ctx, parts)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := c.setOwners(ctx, parts, top, made); err != nil {
		return nil, err
	}
	return made, c.checkKeeper(ctx, top, made)
}

// checkKeeper returns a conflict if the keeper that received the parts of a job is gone: another client has finished with it.
func (c *Client) checkKeeper(ctx context.Context, top, keeper client.Object) error {
	now, err := c.readKeeper(ctx, top)
	if err != nil || now != nil && now.GetUID() == keeper.GetUID() {
		return err
	}
	return apierrors.NewConflict(coordinationv1.Resource("leases"), keeper.GetName(),
		phrase.Errorf("somebody else made the job again meanwhile"))
}

// reclaimParts gives a job, which was changed as planned, the parts that were kept by an interrupted replacement.
func (c *Client) reclaimParts(ctx context.Context, plan *jobPlan) error {
	kept := plan.keptParts()
	if len(kept) == 0 {
		return nil
	}
	for i, part := range kept {
		if at := slices.Index(plan.before, part); at < 0 || !plan.changed[at] {
			continue
		}
		now, err := c.readObject(ctx, part) // as just written
		if err != nil {
			return err
		}
		kept[i] = now
	}
	if err := c.setOwners(ctx, kept, plan.live); err != nil {
		return err
	}
	return c.removeKeeper(ctx, plan.live)
}

// readKeeper reads the keeper of a job, nil if it has none.
func (c *Client) readKeeper(ctx context.Context, top client.Object) (client.Object, error) {
	return c.readLease(ctx, keeperPrefix, Ref{Namespace: top.GetNamespace(), Name: jobNameOf(top), Kind: jobKindOf(top)})
}

// readLease reads gpuctl's Lease with a prefix and the name of a job, nil if there is none. A user who may not read Leases has not created one.
func (c *Client) readLease(ctx context.Context, prefix string, ref Ref) (client.Object, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: prefix + ref.Name}}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	found, err := c.readObject(ctx, lease)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil || found == nil || !isOurs(found) || ref.Kind != "" && jobKindOf(found) != ref.Kind:
		return nil, err
	}
	return found, nil
}

// setOwners replaces the owners of parts of a job. A part that was changed since it was read is a conflict: a client that replaces the job
// concurrently must not give its claims to a Job that is being deleted.
func (c *Client) setOwners(ctx context.Context, parts []*unstructured.Unstructured, owners ...client.Object) error {
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, referenceTo(owner))
	}
	for _, part := range parts {
		if part == nil {
			continue
		}
		if err := c.setPartOwners(ctx, part, references); err != nil {
			return err
		}
	}
	return nil
}

// setPartOwners is setOwners for one part.
func (c *Client) setPartOwners(ctx context.Context, part *unstructured.Unstructured, owners []metav1.OwnerReference) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": part.GetResourceVersion(), "ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	return c.patchObject(ctx, part, body, false)
}

// returnParts makes a new Job the owner of the parts that were kept during the replacement. The garbage collector may have changed the parts since,
// but deletes none; a part that another client has taken is left alone.
func (c *Client) returnParts(ctx context.Context, plan *jobPlan, owner client.Object) error {
	for _, part := range plan.ownedParts() {
		if part == nil {
			continue
		}
		if err := c.returnPart(ctx, plan, part, owner); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) returnPart(ctx context.Context, plan *jobPlan, part *unstructured.Unstructured, owner client.Object) error {
	for attempt := 1; ; attempt++ {
		now, err := c.readObject(ctx, part)
		switch {
		case err != nil:
			return err
		case now == nil, len(now.GetOwnerReferences()) == 1 && isOwned(now, owner):
			return nil
		case !plan.isUnclaimed(now):
			return phrase.Errorf("%s: somebody else makes the job again at this moment: it is left to them, look at the job and try again",
				describeObject(part))
		}
		err = c.setOwners(ctx, []*unstructured.Unstructured{now}, owner)
		if !apierrors.IsConflict(err) || attempt == stepAttempts {
			return err
		}
	}
}

// isUnclaimed reports whether a part has no owners except those it was given for the time without a Job.
func (p *jobPlan) isUnclaimed(part metav1.Object) bool {
	return !slices.ContainsFunc(part.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		kept := p.keeper != nil && reference.UID == p.keeper.GetUID()
		return !kept && reference.UID != p.live.GetUID()
	})
}

// ownedParts returns the current objects of the job beside its top object. A nil entry does not exist.
func (p *jobPlan) ownedParts() []*unstructured.Unstructured {
	return slices.Concat(p.before[1:], p.retainedClaims)
}

// unmentionedClaims reads the claims that belong to the job, or are kept for it, and that its YAML does not mention. Only Jobs are replaced, so only
// their claims change owners. A user who may not list claims gets those of the previous YAML.
func (c *Client) unmentionedClaims(ctx context.Context, live client.Object, last, desired []client.Object) ([]*unstructured.Unstructured, error) {
	if live.GetObjectKind().GroupVersionKind().Kind != "Job" {
		return nil, nil
	}
	claims, err := c.listObjects(ctx, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), live.GetNamespace(), jobNameOf(live))
	if apierrors.IsForbidden(err) {
		claims, err = filterClaims(last), nil
	}
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, claim := range claims {
		if findObject(desired, claim) != nil {
			continue
		}
		found, err := c.readObject(ctx, claim)
		if err != nil {
			return nil, err
		}
		if found != nil && isOurs(found) && (isOwned(found, live) || isKept(found)) {
			out = append(out, found)
		}
	}
	return out, nil
}

func filterClaims(objects []client.Object) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool {
		_, ok := object.(*corev1.PersistentVolumeClaim)
		return !ok
	})
}

// isKept reports whether a part belongs to the keeper of its job.
func isKept(part metav1.Object) bool {
	return len(keeperReferences(part)) > 0
}

// keptParts returns the parts of a plan that belong to the job's keeper because a replacement was interrupted.
func (p *jobPlan) keptParts() []*unstructured.Unstructured {
	if p.live == nil || len(p.before) == 0 {
		return nil
	}
	var out []*unstructured.Unstructured
	for _, part := range p.ownedParts() {
		if part != nil && isKept(part) {
			out = append(out, part)
		}
	}
	return out
}

// claimPart gives a job, whose top object exists, a part that was kept for it, in the state that the job needs. The keeper remains an owner, so that
// nothing is lost if the job cannot be created after all.
func (c *Client) claimPart(ctx context.Context, top client.Object, found *unstructured.Unstructured, part client.Object) error {
	owners := append(keeperReferences(found), referenceTo(top))
	if err := c.setPartOwners(ctx, found, owners); err != nil {
		return err
	}
	part.SetOwnerReferences(owners)
	return c.serverSideApply(ctx, part, false, true)
}

// settleParts gives a complete job sole ownership of its claimed parts and of the claims that its YAML does not mention, and then deletes the
// keeper.
func (c *Client) settleParts(ctx context.Context, top client.Object, rest []client.Object) error {
	claimed, err := c.unmentionedClaims(ctx, top, nil, rest)
	if err != nil {
		return err
	}
	for _, object := range rest {
		found, err := c.readObject(ctx, object)
		if err != nil {
			return err
		}
		if found != nil && isOwned(found, top) && isKept(found) {
			claimed = append(claimed, found)
		}
	}
	if err := c.setOwners(ctx, claimed, top); err != nil {
		return err
	}
	return c.removeKeeper(ctx, top)
}

// keeperReferences returns the references of a part to the keeper of its job.
func keeperReferences(part metav1.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(part.GetOwnerReferences()), func(reference metav1.OwnerReference) bool {
		return reference.Kind != "Lease" || reference.Name != keeperPrefix+jobNameOf(part)
	})
}

// removeKeeper deletes the keeper of a job whose parts belong to its top object again, and its replacement Lease. Anything else that the keeper owns
// no longer belongs to the job.
func (c *Client) removeKeeper(ctx context.Context, top client.Object) error {
	found, err := c.readKeeper(ctx, top)
	if err != nil || found == nil {
		return err
	}
	c.deleteFinishedReplacement(ctx, newResult(top, "").Ref, top)
	return c.removeObject(ctx, found)
}

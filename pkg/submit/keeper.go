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

// keeper returns the Lease that owns the parts of a job while the job is replaced and no Job can own them. After an interruption, this one Lease
// remains and nothing is orphaned. The next action on the job removes it: creating the job takes over the kept parts, and deleting the job deletes
// them.
func keeper(top client.Object) client.Object {
	lease := reservation(top)
	lease.Name = keeperPrefix + jobOf(top)
	return lease
}

// keep creates the keeper of a job, and makes it an owner of the job's parts beside the top object. It returns nil if there are no parts, or if
// the user may not write Leases: then the parts have no owner for a moment.
func (c *Client) keep(ctx context.Context, top client.Object, parts []*unstructured.Unstructured) (client.Object, error) {
	if !slices.ContainsFunc(parts, func(part *unstructured.Unstructured) bool { return part != nil }) {
		return nil, nil
	}
	made := keeper(top)
	err := c.createOne(ctx, made)
	switch {
	case apierrors.IsForbidden(err):
		return nil, c.handOver(ctx, parts)
	case errors.As(err, new(*ExistsError)): // left by an interrupted client, or used by a concurrent one
		if made, err = c.keeperOf(ctx, top); err == nil && made == nil {
			return nil, c.handOver(ctx, parts)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := c.handOver(ctx, parts, top, made); err != nil {
		return nil, err
	}
	return made, c.checkKept(ctx, top, made)
}

// checkKept returns a conflict if the keeper that received the parts of a job is gone: another client has finished with it.
func (c *Client) checkKept(ctx context.Context, top, keeper client.Object) error {
	now, err := c.keeperOf(ctx, top)
	if err != nil || now != nil && now.GetUID() == keeper.GetUID() {
		return err
	}
	return apierrors.NewConflict(coordinationv1.Resource("leases"), keeper.GetName(),
		phrase.Errorf("somebody else made the job again meanwhile"))
}

// takeBack gives a job, which was changed as planned, the parts that were kept by an interrupted replacement.
func (c *Client) takeBack(ctx context.Context, plan *jobPlan) error {
	kept := plan.kept()
	if len(kept) == 0 {
		return nil
	}
	for i, part := range kept {
		if at := slices.Index(plan.before, part); at < 0 || !plan.changed[at] {
			continue
		}
		now, err := c.read(ctx, part) // as just written
		if err != nil {
			return err
		}
		kept[i] = now
	}
	if err := c.handOver(ctx, kept, plan.live); err != nil {
		return err
	}
	return c.endKeeping(ctx, plan.live)
}

// keeperOf reads the keeper of a job, nil if it has none.
func (c *Client) keeperOf(ctx context.Context, top client.Object) (client.Object, error) {
	return c.leaseOf(ctx, keeperPrefix, Ref{Namespace: top.GetNamespace(), Name: jobOf(top), Kind: kindOf(top)})
}

// leaseOf reads gpuctl's Lease with a prefix and the name of a job, nil if there is none. A user who may not read Leases has not created one.
func (c *Client) leaseOf(ctx context.Context, prefix string, ref Ref) (client.Object, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: prefix + ref.Name}}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	found, err := c.read(ctx, lease)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil || found == nil || !isOurs(found) || ref.Kind != "" && kindOf(found) != ref.Kind:
		return nil, err
	}
	return found, nil
}

// handOver replaces the owners of parts of a job. A part that was changed since it was read is a conflict: a client that replaces the job
// concurrently must not give its claims to a Job that is being deleted.
func (c *Client) handOver(ctx context.Context, parts []*unstructured.Unstructured, owners ...client.Object) error {
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, referenceTo(owner))
	}
	for _, part := range parts {
		if part == nil {
			continue
		}
		if err := c.handTo(ctx, part, references); err != nil {
			return err
		}
	}
	return nil
}

// handTo is setOwners for one part.
func (c *Client) handTo(ctx context.Context, part *unstructured.Unstructured, owners []metav1.OwnerReference) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": part.GetResourceVersion(), "ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	return c.patch(ctx, part, body, false)
}

// handBack makes a new Job the owner of the parts that were kept during the replacement. The garbage collector may have changed the parts since,
// but deletes none; a part that another client has taken is left alone.
func (c *Client) handBack(ctx context.Context, plan *jobPlan, owner client.Object) error {
	for _, part := range plan.parts() {
		if part == nil {
			continue
		}
		if err := c.handBackOne(ctx, plan, part, owner); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) handBackOne(ctx context.Context, plan *jobPlan, part *unstructured.Unstructured, owner client.Object) error {
	for attempt := 1; ; attempt++ {
		now, err := c.read(ctx, part)
		switch {
		case err != nil:
			return err
		case now == nil, len(now.GetOwnerReferences()) == 1 && isOwned(now, owner):
			return nil
		case !plan.holds(now):
			return phrase.Errorf("%s: somebody else makes the job again at this moment: it is left to them, look at the job and try again",
				describe(part))
		}
		err = c.handOver(ctx, []*unstructured.Unstructured{now}, owner)
		if !apierrors.IsConflict(err) || attempt == stepAttempts {
			return err
		}
	}
}

// holds reports whether a part has no owners except those it was given for the time without a Job.
func (p *jobPlan) holds(part metav1.Object) bool {
	return !slices.ContainsFunc(part.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		kept := p.keeper != nil && reference.UID == p.keeper.GetUID()
		return !kept && reference.UID != p.live.GetUID()
	})
}

// parts returns the current objects of the job beside its top object. A nil entry does not exist.
func (p *jobPlan) parts() []*unstructured.Unstructured {
	return slices.Concat(p.before[1:], p.stays)
}

// unmentioned reads the claims that belong to the job, or are kept for it, and that its YAML does not mention. Only Jobs are replaced, so only
// their claims change owners. A user who may not list claims gets those of the previous YAML.
func (c *Client) unmentioned(ctx context.Context, live client.Object, last, desired []client.Object) ([]*unstructured.Unstructured, error) {
	if live.GetObjectKind().GroupVersionKind().Kind != "Job" {
		return nil, nil
	}
	claims, err := c.list(ctx, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), live.GetNamespace(), jobOf(live))
	if apierrors.IsForbidden(err) {
		claims, err = claimsIn(last), nil
	}
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, claim := range claims {
		if find(desired, claim) != nil {
			continue
		}
		found, err := c.read(ctx, claim)
		if err != nil {
			return nil, err
		}
		if found != nil && isOurs(found) && (isOwned(found, live) || isKept(found)) {
			out = append(out, found)
		}
	}
	return out, nil
}

func claimsIn(objects []client.Object) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool {
		_, ok := object.(*corev1.PersistentVolumeClaim)
		return !ok
	})
}

// isKept reports whether a part belongs to the keeper of its job.
func isKept(part metav1.Object) bool {
	return len(keepersOf(part)) > 0
}

// kept returns the parts of a plan that belong to the job's keeper because a replacement was interrupted.
func (p *jobPlan) kept() []*unstructured.Unstructured {
	if p.live == nil || len(p.before) == 0 {
		return nil
	}
	var out []*unstructured.Unstructured
	for _, part := range p.parts() {
		if part != nil && isKept(part) {
			out = append(out, part)
		}
	}
	return out
}

// claim gives a job, whose top object exists, a part that was kept for it, in the state that the job needs. The keeper remains an owner, so that
// nothing is lost if the job cannot be created after all.
func (c *Client) claim(ctx context.Context, top client.Object, found *unstructured.Unstructured, part client.Object) error {
	owners := append(keepersOf(found), referenceTo(top))
	if err := c.handTo(ctx, found, owners); err != nil {
		return err
	}
	part.SetOwnerReferences(owners)
	return c.serverSideApply(ctx, part, false, true)
}

// settle gives a complete job sole ownership of its claimed parts and of the claims that its YAML does not mention, and then deletes the
// keeper.
func (c *Client) settle(ctx context.Context, top client.Object, rest []client.Object) error {
	claimed, err := c.unmentioned(ctx, top, nil, rest)
	if err != nil {
		return err
	}
	for _, object := range rest {
		found, err := c.read(ctx, object)
		if err != nil {
			return err
		}
		if found != nil && isOwned(found, top) && isKept(found) {
			claimed = append(claimed, found)
		}
	}
	if err := c.handOver(ctx, claimed, top); err != nil {
		return err
	}
	return c.endKeeping(ctx, top)
}

// keepersOf returns the references of a part to the keeper of its job.
func keepersOf(part metav1.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(part.GetOwnerReferences()), func(reference metav1.OwnerReference) bool {
		return reference.Kind != "Lease" || reference.Name != keeperPrefix+jobOf(part)
	})
}

// endKeeping deletes the keeper of a job whose parts belong to its top object again, and its replacement Lease. Anything else that the keeper owns
// no longer belongs to the job.
func (c *Client) endKeeping(ctx context.Context, top client.Object) error {
	found, err := c.keeperOf(ctx, top)
	if err != nil || found == nil {
		return err
	}
	c.forgetMade(ctx, resultOf(top, "").Ref, top)
	return c.remove(ctx, found)
}

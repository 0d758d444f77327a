package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
)

// ApplyOptions are those of [Client.Apply].
type ApplyOptions struct {
	// Replace recreates a Job whose change Kubernetes refuses: work since its last checkpoint is lost.
	Replace bool
	// Force takes over fields that another program set to another value.
	Force bool
	// DryRun lets the API server check the change, and changes nothing.
	DryRun bool
	// Render is what the objects were rendered with.
	Render render.Options
	// approveRestart must approve a change of a Deployment that restarts its pods; nil approves it.
	approveRestart func(context.Context, client.Object) error
}

// ImmutableError says that Kubernetes cannot make the requested change in place.
type ImmutableError struct {
	Ref Ref
	// Diff is the requested change, as a unified diff.
	Diff string
	// Replaceable says whether the job can be recreated instead.
	Replaceable bool
	// Cause is the API server's answer.
	Cause error
}

func (e *ImmutableError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ImmutableError) Message() phrase.Text {
	return phrase.Textf("job %q cannot be changed in place, nothing was done: Kubernetes refuses to change %s",
		e.Ref.Name, strings.Join(fieldsOf(e.Cause), ", "))
}

// fieldsOf returns the fields that the API server refuses to change. Its message is left out because it contains the whole pod template.
func fieldsOf(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return []string{err.Error()}
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		out = append(out, cause.Field)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (e *ImmutableError) Unwrap() error { return e.Cause }

// Apply makes the objects of one job match the given ones, the first of which owns the others. It creates missing objects, changes others by
// server-side apply, and deletes objects that the job no longer has, except for claims, which keep their data. If nothing differs, nothing is
// written. If any change is refused, nothing is written either.
//
// If Kubernetes refuses the change of a job, the error is an [ImmutableError], unless the options allow replacing the job.
func (c *Client) Apply(ctx context.Context, objects []client.Object, opts ApplyOptions) (Result, error) {
	for attempt := 1; ; attempt++ {
		result, err := c.applyOnce(ctx, objects, opts)
		if !apierrors.IsConflict(err) || isFieldConflict(err) || attempt == stepAttempts {
			return result, err
		}
	}
}

func (c *Client) applyOnce(ctx context.Context, objects []client.Object, opts ApplyOptions) (Result, error) {
	desired := make([]client.Object, len(objects))
	for i, object := range objects {
		desired[i] = object.DeepCopyObject().(client.Object)
	}
	result := newResult(desired[0], ActionUnchanged)
	live, err := c.TopObject(ctx, Ref{Namespace: desired[0].GetNamespace(), Name: jobNameOf(desired[0])})
	switch {
	case isNotFound(err) || errors.As(err, new(*ForeignJobError)):
		if err := c.checkAbsent(); err != nil {
			return Result{}, err
		}
		return c.applyNew(ctx, desired, result, opts)
	case err != nil:
		return Result{}, err
	case jobKindOf(live) != result.Ref.Kind:
		return Result{}, newExistsError(live)
	}
	plan, err := c.planJob(ctx, live, desired, opts.Render)
	if err != nil {
		return Result{}, err
	}
	if err := c.checkPlanned(plan); err != nil {
		return Result{}, err
	}
	if result.Diff, err = plan.diffObjects(); err != nil || !plan.hasChanges() {
		return result, err
	}
	return c.applyOrReplace(ctx, plan, result, opts)
}

// applyOrReplace carries out a plan, or replaces a job whose change Kubernetes refuses, if the options allow it.
func (c *Client) applyOrReplace(ctx context.Context, plan *jobPlan, result Result, opts ApplyOptions) (Result, error) {
	if opts.approveRestart != nil && plan.startsOver() {
		if err := opts.approveRestart(ctx, plan.live); err != nil {
			return Result{}, err
		}
	}
	result.Action = ActionConfigured
	err := c.writePlan(ctx, plan, opts)
	if !apierrors.IsInvalid(err) {
		return result, err
	}
	_, isJob := asBatchJob(plan.live)
	if !isJob || !opts.Replace {
		return result, &ImmutableError{Ref: result.Ref, Diff: result.Diff, Replaceable: isJob, Cause: err}
	}
	result.Action = ActionReplaced
	return result, c.replaceJob(ctx, plan, opts.DryRun)
}

func (c *Client) applyNew(ctx context.Context, desired []client.Object, result Result, opts ApplyOptions) (Result, error) {
	result.Action = ActionCreated
	var err error
	if result.Diff, err = (&jobPlan{desired: desired, fresh: true}).diffObjects(); err != nil {
		return Result{}, err
	}
	if opts.DryRun {
		result.Unchecked, err = c.DryRun(ctx, desired)
		return result, err
	}
	return result, c.Create(ctx, desired)
}

// writePlan writes a plan after the API server has accepted every part of it in a dry run.
func (c *Client) writePlan(ctx context.Context, plan *jobPlan, opts ApplyOptions) error {
	if opts.DryRun {
		return c.writeChanged(ctx, plan, true, opts)
	}
	if plan.unreserved {
		if _, err := c.reserveName(ctx, plan.live); err != nil {
			return err
		}
	}
	if err := c.takeOverFields(ctx, plan); err != nil {
		return err
	}
	for _, dryRun := range []bool{true, false} {
		if err := c.writeChanged(ctx, plan, dryRun, opts); err != nil {
			return err
		}
	}
	if err := c.clearWaitsFor(ctx, plan); err != nil {
		return err
	}
	for _, object := range plan.obsolete {
		if err := c.removeObject(ctx, object); err != nil {
			return err
		}
	}
	if err := c.reclaimParts(ctx, plan); err != nil {
		return err
	}
	if plan.live != nil && isIncomplete(plan.live) {
		return c.markComplete(ctx, plan.live)
	}
	return nil
}

// clearWaitsFor removes the list of awaited jobs from a job that no longer waits. Server-side apply keeps it if gpu-controller wrote it.
func (c *Client) clearWaitsFor(ctx context.Context, plan *jobPlan) error {
	if plan.live == nil {
		return nil
	}
	_, waited := plan.live.GetAnnotations()[names.AnnotationWaitsFor]
	_, waits := plan.desired[0].GetAnnotations()[names.AnnotationWaitsFor]
	if !waited || waits {
		return nil
	}
	return c.patchObject(ctx, plan.live, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, names.AnnotationWaitsFor), false)
}

// writeChanged writes the changed objects of a plan.
func (c *Client) writeChanged(ctx context.Context, plan *jobPlan, dryRun bool, opts ApplyOptions) error {
	for i, object := range plan.desired {
		if !plan.changed[i] {
			continue
		}
		if err := c.writeObject(ctx, plan, i, object, dryRun, opts); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) writeObject(
	ctx context.Context, plan *jobPlan, i int, object client.Object, dryRun bool, opts ApplyOptions,
) error {
	if plan.before[i] == nil {
		if plan.live != nil {
			setOwner(plan.live, object)
		}
		if !dryRun {
			return c.createOne(ctx, object)
		}
		err := c.explainCreate(ctx, object, c.api.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll))
		if apierrors.IsNotFound(err) {
			return nil // its namespace does not exist yet
		}
		return err
	}
	if i == 0 || plan.live == nil {
		c.pinVersion(object, plan.before[i])
	}
	return c.serverSideApply(ctx, jobplan.InPlace(object, plan.live, plan.placed), dryRun, opts.Force || opts.DryRun)
}

// takeOverFields converts the fields that gpuctl set at creation into applied fields, so that server-side apply removes those that are no longer
// applied.
func (c *Client) takeOverFields(ctx context.Context, plan *jobPlan) error {
	for i, before := range plan.before {
		if before == nil || !plan.changed[i] {
			continue
		}
		body, err := csaupgrade.UpgradeManagedFieldsPatch(before, sets.New(fieldOwner), fieldOwner)
		if err != nil {
			return phrase.Errorf("reading who set the fields of %s: %w", describeObject(before), err)
		}
		if body == nil {
			continue
		}
		if err := c.api.Patch(ctx, before, client.RawPatch(types.JSONPatchType, body)); err != nil {
			return phrase.Errorf("taking over the fields of %s: %w", describeObject(before), err)
		}
	}
	return nil
}

func (c *Client) serverSideApply(ctx context.Context, object client.Object, dryRun, force bool) error {
	tree, err := toUnstructured(object)
	if err != nil {
		return err
	}
	var opts []client.ApplyOption
	if force {
		opts = append(opts, client.ForceOwnership)
	}
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(tree), opts...); err != nil {
		return phrase.Errorf("applying %s: %w", describeObject(object), err)
	}
	return nil
}

// isFieldConflict reports whether another program set a field to another value. A retry does not help.
func isFieldConflict(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

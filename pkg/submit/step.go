package submit

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Action is the effect on a job.
type Action string

// The actions.
const (
	ActionCreated    Action = "created"
	ActionDeleted    Action = "deleted"
	ActionConfigured Action = "configured"
	ActionReplaced   Action = "replaced"
	ActionUnchanged  Action = "unchanged"
	ActionPaused     Action = "paused"
	ActionResumed    Action = "resumed"
	ActionCancelled  Action = "cancelled"
	ActionRetried    Action = "retried"
)

// Result is the outcome of a change of a job.
type Result struct {
	// Ref is the job, with its kind.
	Ref Ref
	// Action is ActionUnchanged if the job already was in the desired state and nothing was written.
	Action Action
	// GPUs is the number of GPUs that a step releases or requests again, else what the job requests in total while it is not paused or cancelled.
	GPUs int64
	// WaitsFor are the jobs that a resumed or restarted job waits for, before it asks for GPUs.
	WaitsFor []string
	// Diff is the change of the job's objects, as a unified diff of YAML; "" if Action says it all.
	Diff string
	// Unchecked lists checks that a dry run skipped for lack of rights, one sentence each.
	Unchecked []phrase.Text
	// Replacement is the Job from a Lease that was or would be created; nil for none.
	Replacement *Replacement
}

// StepOptions are those of [Client.Pause], [Client.Resume] and [Client.Cancel].
type StepOptions struct {
	// Now is the time to record on the job.
	Now time.Time
	// DryRun lets the API server check the change, and changes nothing.
	DryRun bool
	// Digest is the digest of the Job that Resume may create, from a [Replacement]; "" allows none.
	Digest string
}

// stepAttempts is how often a step is planned again because the job has changed meanwhile.
const stepAttempts = 5

// Pause takes the GPUs from a job until it is resumed. See [jobplan.Pause].
func (c *Client) Pause(ctx context.Context, ref Ref, opts StepOptions) (Result, error) {
	return c.runStep(ctx, ref, opts, ActionPaused, func(top client.Object) (jobplan.Step, error) {
		return jobplan.Pause(top, opts.Now)
	})
}

// Resume lets a paused job wait for GPUs again. See [jobplan.Resume]. If the job is missing because its replacement was interrupted, its Job is
// created first if the options have its digest; otherwise the error is an [UnseenJobError].
func (c *Client) Resume(ctx context.Context, ref Ref, opts StepOptions) (Result, error) {
	var there client.Object
	var waits []string
	result, err := c.runStep(ctx, ref, opts, ActionResumed, func(top client.Object) (jobplan.Step, error) {
		there = top
		if waits = nil; jobplan.PausedByUser(top) { // else it starts without them now
			waits = jobplan.PendingDependencies(top)
		}
		return jobplan.Resume(top)
	})
	switch {
	case isNotFound(err):
		return c.resumeReplacement(ctx, ref, opts, err)
	case err == nil && !opts.DryRun:
		c.deleteFinishedReplacement(ctx, ref, there)
	}
	result.WaitsFor = waits
	return result, err
}

// Cancel ends a job for good and keeps its record. See [jobplan.Cancel].
func (c *Client) Cancel(ctx context.Context, ref Ref, opts StepOptions) (Result, error) {
	return c.runStep(ctx, ref, opts, ActionCancelled, func(top client.Object) (jobplan.Step, error) {
		return jobplan.Cancel(top, opts.Now)
	})
}

// runStep reads a job, lets plan decide and carries the step out. It starts again if the job has changed in between.
func (c *Client) runStep(
	ctx context.Context, ref Ref, opts StepOptions, action Action, plan func(client.Object) (jobplan.Step, error),
) (Result, error) {
	for attempt := 1; ; attempt++ {
		top, err := c.TopObject(ctx, ref)
		if err != nil {
			return Result{}, err
		}
		planned, err := plan(top)
		if err != nil {
			return Result{}, err
		}
		result := newResult(top, action)
		result.GPUs = planned.GPUs
		if planned.Patch == nil {
			result.Action = ActionUnchanged
			return result, nil
		}
		err = c.patchObject(ctx, top, planned.Patch, opts.DryRun)
		if !apierrors.IsConflict(err) || attempt == stepAttempts {
			return result, err
		}
	}
}

func newResult(top client.Object, action Action) Result {
	ref := Ref{Namespace: top.GetNamespace(), Name: jobNameOf(top), Kind: jobKindOf(top)}
	return Result{Ref: ref, Action: action, GPUs: jobplan.GPUs(top)}
}

// patchObject sends a JSON merge patch of an object. Like all writes, it completes even if ctx ends meanwhile.
func (c *Client) patchObject(ctx context.Context, object client.Object, body []byte, dryRun bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var opts []client.PatchOption
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	gvk := object.GetObjectKind().GroupVersionKind()
	err := c.api.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), opts...)
	object.GetObjectKind().SetGroupVersionKind(gvk) // decoding the response clears it
	if err != nil {
		return phrase.Errorf("changing %s: %w", describeObject(object), err)
	}
	return nil
}

package submit

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// NoReplicasError says that a job cannot have several replicas.
type NoReplicasError struct{ Ref Ref }

func (e *NoReplicasError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NoReplicasError) Message() phrase.Text {
	return phrase.Textf("job %q is a %s job, which has no replicas: only inference and compute jobs have", e.Ref.Name, e.Ref.Kind)
}

// Scale changes the number of replicas of a service, in its submitted YAML, too. The pod template does not change: existing pods continue to run,
// even if the job would be rendered differently today. If the change is refused, nothing changes.
func (c *Client) Scale(ctx context.Context, ref Ref, replicas int32, opts EditOptions) (Result, error) {
	for attempt := 1; ; attempt++ {
		result, err := c.scaleOnce(ctx, ref, replicas, opts)
		if !apierrors.IsConflict(err) || isFieldConflict(err) || attempt == stepAttempts {
			return result, err
		}
	}
}

func (c *Client) scaleOnce(ctx context.Context, ref Ref, replicas int32, opts EditOptions) (Result, error) {
	top, err := c.TopObject(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	result := newResult(top, ActionUnchanged)
	deployment, ok := top.(*appsv1.Deployment)
	if !ok || result.Ref.Kind == string(workload.KindNotebook) {
		return Result{}, &NoReplicasError{Ref: result.Ref}
	}
	doc, err := submittedDocument(top, top.GetAnnotations()[names.AnnotationSubmitted])
	if err != nil {
		return Result{}, err
	}
	source := doc.Source
	if service := doc.Job.Service; service == nil || service.Autoscaling != nil || service.Replicas != replicas {
		if source, err = jobplan.SetField(source, "service.replicas", replicas); err != nil {
			return Result{}, phrase.Errorf("changing the replicas of job %s: %w", ref.Name, err)
		}
	}
	step, err := jobplan.Scale(deployment, source, replicas)
	if err != nil || step.Patch == nil {
		return result, err
	}
	if err := c.patchObject(ctx, deployment.DeepCopy(), step.Patch, true); err != nil {
		return Result{}, err
	}
	if err := c.scaleRest(ctx, deployment, source, opts); err != nil {
		return Result{}, err
	}
	return c.scaleTop(ctx, deployment, step, opts)
}

// scaleRest changes the objects of a service that depend on its replicas, or returns the refusal.
func (c *Client) scaleRest(ctx context.Context, top *appsv1.Deployment, source string, opts EditOptions) error {
	objects, err := renderObjects(top, source, opts.Render)
	if err != nil {
		return err
	}
	plan, err := c.planJob(ctx, top, objects, opts.Render)
	if err != nil {
		return err
	}
	plan.changed[0] = false
	if !plan.hasChanges() {
		return nil
	}
	_, err = c.applyOrReplace(ctx, plan, newResult(top, ""), ApplyOptions{Force: true, DryRun: opts.DryRun, Render: opts.Render})
	return err
}

func (c *Client) scaleTop(ctx context.Context, top *appsv1.Deployment, step jobplan.Step, opts EditOptions) (Result, error) {
	before, err := toUnstructured(top)
	if err != nil {
		return Result{}, err
	}
	if err := c.patchObject(ctx, top, step.Patch, opts.DryRun); err != nil {
		return Result{}, err
	}
	after, err := toUnstructured(top)
	if err != nil {
		return Result{}, err
	}
	result := newResult(top, ActionConfigured)
	result.Diff, err = jobplan.Diff(before, after)
	return result, err
}

package submit

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

// NoReplicasError says that a job cannot have several replicas.
type NoReplicasError struct{ Ref Ref }

func (e *NoReplicasError) Error() string {
	return fmt.Sprintf("job %q is a %s job, which has no replicas: only inference and compute jobs have", e.Ref.Name, e.Ref.Kind)
}

// Scale changes how many replicas a service has, in the YAML that it was made from, too.
func (c *Client) Scale(ctx context.Context, ref Ref, replicas int32, opts EditOptions) (Result, error) {
	top, err := c.Top(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	result := resultOf(top, ActionUnchanged)
	if _, ok := top.(*appsv1.Deployment); !ok {
		return Result{}, &NoReplicasError{Ref: result.Ref}
	}
	source, err := jobplan.SetField(top.GetAnnotations()[names.AnnotationSubmitted], "service.replicas", replicas)
	if err != nil {
		return Result{}, fmt.Errorf("changing the replicas of job %s: %w", ref.Name, err)
	}
	objects, err := objectsOf(top, source, opts.Render)
	if err != nil {
		return Result{}, err
	}
	return c.Apply(ctx, objects, ApplyOptions{Force: true, DryRun: opts.DryRun, Render: opts.Render})
}

package submit

import (
	"context"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Document reads the YAML that a job was made from, or last changed to.
func (c *Client) Document(ctx context.Context, ref Ref) (workload.Document, error) {
	top, err := c.Top(ctx, ref)
	if err != nil {
		return workload.Document{}, err
	}
	return documentOf(top, top.GetAnnotations()[names.AnnotationSubmitted])
}

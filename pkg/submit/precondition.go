package submit

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// WithPrecondition returns a Client that changes and deletes jobs, quotas and namespaces only if is approves their current state. is receives the
// object, or nil for a missing one, and its error aborts the change. If an object changes after the check, it is not written; it is checked again.
//
// A job that is replaced is checked just before the old one is deleted.
func (c *Client) WithPrecondition(is func(metav1.Object) error) *Client {
	return &Client{api: c.api, precondition: is}
}

// checkPrecondition asks the precondition about an object.
func (c *Client) checkPrecondition(object metav1.Object) error {
	if c.precondition == nil {
		return nil
	}
	return c.precondition(object)
}

// checkAbsent asks the precondition about a missing object.
func (c *Client) checkAbsent() error {
	if c.precondition == nil {
		return nil
	}
	return c.precondition(nil)
}

// checkPreconditions asks the precondition about all objects of a job or a quota, of which there may be none.
func (c *Client) checkPreconditions(objects []client.Object) error {
	if len(objects) == 0 {
		return c.checkAbsent()
	}
	for _, object := range objects {
		if err := c.checkPrecondition(object); err != nil {
			return err
		}
	}
	return nil
}

// checkPlanned asks the precondition again about the job as the plan has read it.
func (c *Client) checkPlanned(plan *jobPlan) error {
	if plan.before[0] == nil {
		return c.checkAbsent()
	}
	return c.checkPrecondition(plan.before[0])
}

// pinVersion makes a write of a checked object fail with a conflict if the object has changed since. Without a precondition, writes do not depend on
// changes of other fields.
func (c *Client) pinVersion(object, seen client.Object) {
	if c.precondition != nil && seen != nil {
		object.SetResourceVersion(seen.GetResourceVersion())
	}
}

// deletePreconditions returns the preconditions for deleting exactly this object, and, if the client has a precondition, exactly this version. Owned
// objects are deleted with their owner.
func (c *Client) deletePreconditions(object metav1.Object) client.Preconditions {
	uid := object.GetUID()
	out := client.Preconditions{UID: &uid}
	if c.precondition != nil && len(object.GetOwnerReferences()) == 0 {
		version := object.GetResourceVersion()
		out.ResourceVersion = &version
	}
	return out
}

// shouldRetry reports whether a checked object has changed meanwhile and must be checked again.
func (c *Client) shouldRetry(err error, attempt int) bool {
	return c.precondition != nil && apierrors.IsConflict(err) && attempt < stepAttempts
}

// ChangedError says that the YAML of a job was changed by someone else meanwhile, or the job was deleted.
type ChangedError struct{ Job string }

func (e *ChangedError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ChangedError) Message() phrase.Text {
	return phrase.Textf("job %q was changed by somebody else meanwhile: nothing was done, try again", e.Job)
}

// sourceChange changes a job through c, which writes only while the job's YAML is still doc.
type sourceChange func(ctx context.Context, c *Client, top client.Object, doc workload.Document) (Result, error)

// changeSource reads a job with its YAML and calls change. If someone else changes the YAML in between, it starts again, so that no change is lost.
func (c *Client) changeSource(ctx context.Context, ref Ref, change sourceChange) (Result, error) {
	for attempt := 1; ; attempt++ {
		top, err := c.TopObject(ctx, ref)
		if err != nil {
			return Result{}, err
		}
		doc, err := submittedDocument(top, top.GetAnnotations()[names.AnnotationSubmitted])
		if err != nil {
			return Result{}, err
		}
		result, err := change(ctx, c.whileMadeFrom(top), top, doc)
		if !errors.As(err, new(*ChangedError)) || attempt == stepAttempts {
			return result, err
		}
	}
}

// whileMadeFrom returns a Client that changes a job only while it has its current YAML.
func (c *Client) whileMadeFrom(top client.Object) *Client {
	source := top.GetAnnotations()[names.AnnotationSubmitted]
	return c.WithPrecondition(func(object metav1.Object) error {
		if object == nil || object.GetAnnotations()[names.AnnotationSubmitted] != source {
			return &ChangedError{Job: jobNameOf(top)}
		}
		return c.checkPrecondition(object)
	})
}

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

// If returns a Client that changes and deletes jobs, quotas and namespaces only while is agrees to what they are: it is
// asked with the object, or with nil for one that is not there, and its error ends the change. An object that changes
// after it was asked about is not written to: it is asked about again.
//
// A job that is made again is asked about just before the old one is deleted.
func (c *Client) If(is func(metav1.Object) error) *Client {
	return &Client{api: c.api, is: is}
}

// check asks whether an object may be changed.
func (c *Client) check(object metav1.Object) error {
	if c.is == nil {
		return nil
	}
	return c.is(object)
}

// checkAbsent asks whether an object that is not there may be made.
func (c *Client) checkAbsent() error {
	if c.is == nil {
		return nil
	}
	return c.is(nil)
}

// checkAll asks about all objects of a job or a quota, of which there may be none.
func (c *Client) checkAll(objects []client.Object) error {
	if len(objects) == 0 {
		return c.checkAbsent()
	}
	for _, object := range objects {
		if err := c.check(object); err != nil {
			return err
		}
	}
	return nil
}

// checkPlanned asks about a job once more, as the plan to change it has read it.
func (c *Client) checkPlanned(plan *jobPlan) error {
	if plan.before[0] == nil {
		return c.checkAbsent()
	}
	return c.check(plan.before[0])
}

// hold lets a write of an object that was asked about fail with a conflict if the object changed since. Without a
// condition writes do not depend on what others do to other fields.
func (c *Client) hold(object, seen client.Object) {
	if c.is != nil && seen != nil {
		object.SetResourceVersion(seen.GetResourceVersion())
	}
}

// only are the preconditions of deleting exactly this object, and under a condition exactly this version of it. What
// belongs to another object goes with that.
func (c *Client) only(object metav1.Object) client.Preconditions {
	uid := object.GetUID()
	out := client.Preconditions{UID: &uid}
	if c.is != nil && len(object.GetOwnerReferences()) == 0 {
		version := object.GetResourceVersion()
		out.ResourceVersion = &version
	}
	return out
}

// again reports whether what was asked about has changed meanwhile, so that it is to be asked about again.
func (c *Client) again(err error, attempt int) bool {
	return c.is != nil && apierrors.IsConflict(err) && attempt < stepAttempts
}

// ChangedError says that the YAML of a job was changed by somebody else meanwhile, or the job deleted.
type ChangedError struct{ Job string }

func (e *ChangedError) Error() string { return e.Says().String() }

// Says implements [phrase.Sayer].
func (e *ChangedError) Says() phrase.Text {
	return phrase.Of("job %q was changed by somebody else meanwhile: nothing was done, try again", e.Job)
}

// sourceChange changes a job through c, which writes only while the job is still made from doc.
type sourceChange func(ctx context.Context, c *Client, top client.Object, doc workload.Document) (Result, error)

// changeSource reads a job with its YAML and has that changed, again with what it has become if somebody else changed it in
// between: no change undoes another.
func (c *Client) changeSource(ctx context.Context, ref Ref, change sourceChange) (Result, error) {
	for attempt := 1; ; attempt++ {
		top, err := c.Top(ctx, ref)
		if err != nil {
			return Result{}, err
		}
		doc, err := documentOf(top, top.GetAnnotations()[names.AnnotationSubmitted])
		if err != nil {
			return Result{}, err
		}
		result, err := change(ctx, c.whileMadeFrom(top), top, doc)
		if !errors.As(err, new(*ChangedError)) || attempt == stepAttempts {
			return result, err
		}
	}
}

// whileMadeFrom returns a Client that changes a job only while it is made from the YAML that it has now.
func (c *Client) whileMadeFrom(top client.Object) *Client {
	source := top.GetAnnotations()[names.AnnotationSubmitted]
	return c.If(func(object metav1.Object) error {
		if object == nil || object.GetAnnotations()[names.AnnotationSubmitted] != source {
			return &ChangedError{Job: jobOf(top)}
		}
		return c.check(object)
	})
}

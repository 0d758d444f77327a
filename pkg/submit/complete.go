package submit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// An incomplete job is left alone for five seconds: another client may be creating it.
const (
	completionPoll     = 250 * time.Millisecond
	completionAttempts = 20
)

// markIncomplete notes on the top object of a job, which is created first, that more objects follow. A client that finds the note later knows that
// the creation was interrupted.
func markIncomplete(top client.Object) {
	annotations := maps.Clone(top.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationIncomplete] = names.True
	top.SetAnnotations(annotations)
}

func isIncomplete(top metav1.Object) bool {
	return top.GetAnnotations()[names.AnnotationIncomplete] != ""
}

// completeJob creates the objects of a job beside its top object, and removes the note. It returns the created objects.
func (c *Client) completeJob(ctx context.Context, top client.Object, rest []client.Object) (made []client.Object, err error) {
	lease, err := c.reserveName(ctx, top)
	if err != nil {
		return nil, err
	}
	if lease != nil {
		made = append(made, lease)
	}
	found := 0
	for _, object := range rest {
		fresh, err := c.createPart(ctx, top, object)
		if err != nil {
			return made, err
		}
		if fresh {
			made = append(made, object)
		} else {
			found++
		}
	}
	if found > 0 { // the job's keeper may still exist
		if err := c.settleParts(ctx, top, rest); err != nil {
			return made, &unsettledError{err}
		}
		if isIncomplete(top) {
			if err := c.markComplete(ctx, top); err != nil {
				return made, &unsettledError{err}
			}
		}
		return made, nil
	}
	if !isIncomplete(top) {
		return made, nil
	}
	return made, c.markComplete(ctx, top)
}

// unsettledError says that a job has all its parts, but kept parts may now belong to it alone: deleting the job again would delete their data.
type unsettledError struct{ error }

func (e *unsettledError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *unsettledError) Message() phrase.Text {
	return phrase.Textf("%w; the job is there, create it again to complete it", e.error)
}

func (e *unsettledError) Unwrap() error { return e.error }

func (c *Client) markComplete(ctx context.Context, top client.Object) error {
	return c.patchObject(ctx, top, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, names.AnnotationIncomplete), false)
}

// createPart creates an object that belongs to a job. If the object already belongs to the job because another client completed it, it is not created
// again. An object kept for the job is taken over.
func (c *Client) createPart(ctx context.Context, top, object client.Object) (made bool, err error) {
	setOwner(top, object)
	err = c.createOne(ctx, object)
	if !errors.As(err, new(*ExistsError)) {
		return err == nil, err
	}
	found, readErr := c.readObject(ctx, object)
	switch {
	case readErr != nil || found == nil:
		return false, err
	case isOurs(found) && isKept(found):
		return false, c.claimPart(ctx, top, found, object)
	case isOwned(found, top):
		return false, nil
	}
	return false, err
}

// findUnfinished looks for a job with the name of top, of any kind. It returns the job if it is the same job and incomplete, an [ExistsError] if it
// is another job, and nil if the name is free.
func (c *Client) findUnfinished(ctx context.Context, top client.Object) (client.Object, error) {
	found, err := c.findTops(ctx, top.GetNamespace(), jobNameOf(top))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	for looks := 1; ; looks++ {
		live, err := c.readObject(ctx, top)
		switch {
		case err != nil:
			return nil, err
		case live == nil:
			return nil, c.checkFree(ctx, top)
		case len(found) > 1, !isIncomplete(live), !isSameJob(live, top):
			return nil, newExistsError(found[0])
		case looks == completionAttempts:
			return live, nil
		}
		select { // another client may still be creating it
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(completionPoll):
		}
	}
}

// isSameJob reports whether two top objects are of the same job, with the same YAML and the same folder.
func isSameJob(a, b client.Object) bool {
	return isOurs(a) && jobKindOf(a) == jobKindOf(b) &&
		a.GetAnnotations()[names.AnnotationSubmitted] == b.GetAnnotations()[names.AnnotationSubmitted] &&
		a.GetAnnotations()[names.AnnotationUpload] == b.GetAnnotations()[names.AnnotationUpload]
}

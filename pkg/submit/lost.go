package submit

import (
	"context"
	"errors"
	"maps"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// mark writes on an object which request creates it, and returns that mark.
func mark(object client.Object) string {
	submission := string(uuid.NewUUID())
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationSubmission] = submission
	object.SetAnnotations(annotations)
	return submission
}

// isLost says whether an error leaves open whether the API server did what it was asked: the answer was lost, the
// server gave up waiting for its own database, or a proxy before it lost the connection, which some call unavailable.
func isLost(err error) bool {
	if err == nil || neverSent(err) {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// neverSent says whether not even a connection came about.
func neverSent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// Patience with which findOut looks for an object: a request whose answer was lost may still be under way.
const (
	findOutTimeout = 10 * time.Second
	findOutPoll    = time.Second
)

// findOut looks whether a creation whose answer was lost took place. It did if the object carries the request's own
// mark; if it carries another one, someone else created it.
func (c *Client) findOut(ctx context.Context, object client.Object, submission string, lost error) error {
	ctx, cancel := context.WithTimeout(ctx, findOutTimeout)
	defer cancel()
	gvk := object.GetObjectKind().GroupVersionKind()
	found := object.DeepCopyObject().(client.Object)
	err := wait.PollUntilContextCancel(ctx, findOutPoll, true, func(ctx context.Context) (bool, error) {
		return c.api.Get(ctx, client.ObjectKeyFromObject(object), found) == nil, nil
	})
	found.GetObjectKind().SetGroupVersionKind(gvk)
	switch {
	case err != nil:
		return phrase.Errorf("creating %s, of which it is not known whether it took place: %w", describe(object), lost)
	case found.GetAnnotations()[names.AnnotationSubmission] != submission:
		return existsError(found)
	}
	object.SetUID(found.GetUID())
	object.SetResourceVersion(found.GetResourceVersion())
	return nil
}

// isMade says whether an object that already exists is the one that was to be created: the client asks again by itself where an answer
// says when to, and the first request may have been carried out.
func (c *Client) isMade(ctx context.Context, object client.Object, submission string) bool {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	if c.api.Get(ctx, client.ObjectKeyFromObject(object), found) != nil || found.GetAnnotations()[names.AnnotationSubmission] != submission {
		return false
	}
	object.SetUID(found.GetUID())
	object.SetResourceVersion(found.GetResourceVersion())
	return true
}

// existsError tells whose an object is that is in the way.
func existsError(found client.Object) *ExistsError {
	exists := &ExistsError{Namespace: found.GetNamespace(), Object: describe(found)}
	if isOurs(found) {
		exists.Name, exists.Kind = jobOf(found), kindOf(found)
	}
	return exists
}

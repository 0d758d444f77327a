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

// markRequest writes a unique request ID on an object before its creation, and returns the ID.
func markRequest(object client.Object) string {
	submission := string(uuid.NewUUID())
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationSubmission] = submission
	object.SetAnnotations(annotations)
	return submission
}

// isOutcomeUnknown reports whether an error leaves open if the API server carried out the request: the response was lost, the server gave up waiting
// for its database, or a proxy lost the connection, which some report as unavailable.
func isOutcomeUnknown(err error) bool {
	if err == nil || neverSent(err) {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// neverSent reports whether no connection was established at all.
func neverSent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// Limits for resolveLostCreate: a request whose response was lost may still be in progress.
const (
	lostCreateTimeout = 10 * time.Second
	lostCreatePoll    = time.Second
)

// resolveLostCreate checks whether a creation whose response was lost took place. It did if the object has the request's own ID; with another ID,
// another client created it.
func (c *Client) resolveLostCreate(ctx context.Context, object client.Object, submission string, lost error) error {
	ctx, cancel := context.WithTimeout(ctx, lostCreateTimeout)
	defer cancel()
	gvk := object.GetObjectKind().GroupVersionKind()
	found := object.DeepCopyObject().(client.Object)
	err := wait.PollUntilContextCancel(ctx, lostCreatePoll, true, func(ctx context.Context) (bool, error) {
		return c.api.Get(ctx, client.ObjectKeyFromObject(object), found) == nil, nil
	})
	found.GetObjectKind().SetGroupVersionKind(gvk)
	switch {
	case err != nil:
		return phrase.Errorf("creating %s, of which it is not known whether it took place: %w", describeObject(object), lost)
	case found.GetAnnotations()[names.AnnotationSubmission] != submission:
		return newExistsError(found)
	}
	object.SetUID(found.GetUID())
	object.SetResourceVersion(found.GetResourceVersion())
	return nil
}

// isOwnCreation reports whether an object that already exists is the one to be created: the client retries by itself if a response says when to, and
// the first request may have been carried out.
func (c *Client) isOwnCreation(ctx context.Context, object client.Object, submission string) bool {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	if c.api.Get(ctx, client.ObjectKeyFromObject(object), found) != nil || found.GetAnnotations()[names.AnnotationSubmission] != submission {
		return false
	}
	object.SetUID(found.GetUID())
	object.SetResourceVersion(found.GetResourceVersion())
	return true
}

// newExistsError describes the existing object that is in the way.
func newExistsError(found client.Object) *ExistsError {
	exists := &ExistsError{Namespace: found.GetNamespace(), Object: describeObject(found)}
	if isOurs(found) {
		exists.Name, exists.Kind = jobNameOf(found), jobKindOf(found)
	}
	return exists
}

package submit

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Deleted is a job that was deleted.
type Deleted struct{ Namespace, Name, Kind string }

// Delete deletes a job that gpuctl made, with all that belongs to it; objects without gpuctl's labels stay. A kind
// other than "" spares jobs of the same name and another kind. Of a job whose own object is gone, what is left of it
// goes. Kubernetes ends the pods in its own time: see [Client.WaitGone].
func (c *Client) Delete(ctx context.Context, namespace, name, kind string) (Deleted, error) {
	for attempt := 1; ; attempt++ {
		deleted, err := c.deleteOnce(ctx, namespace, name, kind)
		if !c.again(err, attempt) {
			return deleted, err
		}
	}
}

func (c *Client) deleteOnce(ctx context.Context, namespace, name, kind string) (Deleted, error) {
	found, rest, err := c.parts(ctx, Ref{Namespace: namespace, Name: name, Kind: kind})
	if err != nil {
		return Deleted{}, err
	}
	if err := c.checkAll(found); err != nil {
		return Deleted{}, err
	}
	for _, object := range c.order(rest, found) {
		err := c.removeIf(ctx, object, c.only(object))
		mayStay := len(found) > 0 && isBroken(object) && apierrors.IsForbidden(err)
		if err != nil && !mayStay {
			return Deleted{}, err
		}
	}
	return Deleted{Namespace: namespace, Name: name, Kind: kindOf(append(found, rest...)[0])}, nil
}

// isBroken reports whether an object is what [Client.Broken] finds. Others may have written it, and who may not remove it deletes a job all the
// same: what stays of it makes nothing unseen.
func isBroken(object client.Object) bool {
	return object.GetObjectKind().GroupVersionKind().Kind == "Lease" && strings.HasPrefix(object.GetName(), againPrefix)
}

// Exists is nil if there is something that [Client.Delete] would delete, else its [NotFoundError].
func (c *Client) Exists(ctx context.Context, ref Ref) error {
	_, _, err := c.parts(ctx, ref)
	return err
}

// parts finds the objects that a job is, and the rest of it: its Services, what keeps the others and knows its Job if somebody was
// stopped who made it again, and its pods if its own object is gone.
func (c *Client) parts(ctx context.Context, ref Ref) (tops, rest []client.Object, err error) {
	if tops, err = c.belonging(ctx, ref, topKinds...); err != nil {
		return nil, nil, err
	}
	others := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Service")}
	if len(tops) == 0 {
		others = append(others, corev1.SchemeGroupVersion.WithKind("Pod"))
	}
	if rest, err = c.belonging(ctx, ref, others...); err != nil {
		return nil, nil, err
	}
	for _, prefix := range []string{keeperPrefix, againPrefix} {
		lease, err := c.leaseOf(ctx, prefix, ref)
		if err != nil {
			return nil, nil, err
		}
		if lease != nil {
			rest = append(rest, lease)
		}
	}
	if len(tops)+len(rest) == 0 {
		return nil, nil, c.absent(ctx, ref)
	}
	return tops, rest, nil
}

// belonging finds the objects of these kinds that belong to a job.
func (c *Client) belonging(ctx context.Context, ref Ref, kinds ...schema.GroupVersionKind) ([]client.Object, error) {
	var out []client.Object
	for _, kind := range kinds {
		found, err := c.list(ctx, kind, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if ref.Kind == "" || kindOf(object) == ref.Kind {
				out = append(out, object)
			}
		}
	}
	return out, nil
}

// order is that of deletions: what belongs to a job first, so that a user who is interrupted finds the job again; under a
// condition the job first, as its refusal must leave all as it is.
func (c *Client) order(rest, tops []client.Object) []client.Object {
	if c.is != nil {
		return slices.Concat(tops, rest)
	}
	return slices.Concat(rest, tops)
}

// gonePoll is how often WaitGone looks.
const gonePoll = 500 * time.Millisecond

// WaitGone returns when no object and no pod of the job is left, so that its GPUs are free again, or with ctx's error.
func (c *Client) WaitGone(ctx context.Context, job Deleted) error {
	return wait.PollUntilContextCancel(ctx, gonePoll, true, func(ctx context.Context) (bool, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		labels := client.MatchingLabels{names.LabelJob: job.Name, names.LabelJobType: job.Kind}
		if err := c.api.List(ctx, pods, client.InNamespace(job.Namespace), labels); err != nil {
			return false, phrase.Errorf("waiting for the pods of job %s to end: %w", job.Name, err)
		}
		tops, err := c.tops(ctx, job.Namespace, job.Name)
		if err != nil {
			return false, err
		}
		same := slices.ContainsFunc(tops, func(object client.Object) bool {
			return object.GetLabels()[names.LabelJobType] == job.Kind
		})
		return len(pods.Items) == 0 && !same, nil
	})
}

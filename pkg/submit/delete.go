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

// Deleted is a deleted job.
type Deleted struct{ Namespace, Name, Kind string }

// Delete deletes a job that gpuctl created, with all objects that belong to it. Objects without gpuctl's labels stay. A kind other than "" excludes
// jobs of the same name and another kind. If the top object is already gone, the rest of the job is deleted. Kubernetes ends the pods asynchronously:
// see [Client.WaitForDeletion].
func (c *Client) Delete(ctx context.Context, namespace, name, kind string) (Deleted, error) {
	for attempt := 1; ; attempt++ {
		deleted, err := c.deleteOnce(ctx, namespace, name, kind)
		if !c.shouldRetry(err, attempt) {
			return deleted, err
		}
	}
}

func (c *Client) deleteOnce(ctx context.Context, namespace, name, kind string) (Deleted, error) {
	found, rest, err := c.findParts(ctx, Ref{Namespace: namespace, Name: name, Kind: kind})
	if err != nil {
		return Deleted{}, err
	}
	if err := c.checkPreconditions(found); err != nil {
		return Deleted{}, err
	}
	for _, object := range c.deletionOrder(rest, found) {
		err := c.removeWithPreconditions(ctx, object, c.deletePreconditions(object))
		mayStay := len(found) > 0 && isReplacementLease(object) && apierrors.IsForbidden(err)
		if err != nil && !mayStay {
			return Deleted{}, err
		}
	}
	return Deleted{Namespace: namespace, Name: name, Kind: jobKindOf(append(found, rest...)[0])}, nil
}

// isReplacementLease reports whether an object is a Lease that [Client.InterruptedReplacement] returns. Others may have written it. A user who may not delete
// it can still delete the job: the Lease cannot create anything unseen.
func isReplacementLease(object client.Object) bool {
	return object.GetObjectKind().GroupVersionKind().Kind == "Lease" && strings.HasPrefix(object.GetName(), replacementPrefix)
}

// Exists returns nil if there is something that [Client.Delete] would delete, else its [NotFoundError].
func (c *Client) Exists(ctx context.Context, ref Ref) error {
	_, _, err := c.findParts(ctx, ref)
	return err
}

// findParts finds the top objects of a job and the rest of it: its Services, its keeper, its replacement Lease, and its pods if the top object is
// gone.
func (c *Client) findParts(ctx context.Context, ref Ref) (tops, rest []client.Object, err error) {
	if tops, err = c.findBelonging(ctx, ref, topKinds...); err != nil {
		return nil, nil, err
	}
	others := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Service")}
	if len(tops) == 0 {
		others = append(others, corev1.SchemeGroupVersion.WithKind("Pod"))
	}
	if rest, err = c.findBelonging(ctx, ref, others...); err != nil {
		return nil, nil, err
	}
	for _, prefix := range []string{keeperPrefix, replacementPrefix} {
		lease, err := c.readLease(ctx, prefix, ref)
		if err != nil {
			return nil, nil, err
		}
		if lease != nil {
			rest = append(rest, lease)
		}
	}
	if len(tops)+len(rest) == 0 {
		return nil, nil, c.explainAbsent(ctx, ref)
	}
	return tops, rest, nil
}

// findBelonging finds the objects of some kinds that belong to a job.
func (c *Client) findBelonging(ctx context.Context, ref Ref, kinds ...schema.GroupVersionKind) ([]client.Object, error) {
	var out []client.Object
	for _, kind := range kinds {
		found, err := c.listObjects(ctx, kind, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if ref.Kind == "" || jobKindOf(object) == ref.Kind {
				out = append(out, object)
			}
		}
	}
	return out, nil
}

// deletionOrder returns the order of deletions. Parts come first, so that after an interruption the user can still find the job. Under a precondition
// the top object comes first, because a refusal must not change anything.
func (c *Client) deletionOrder(rest, tops []client.Object) []client.Object {
	if c.precondition != nil {
		return slices.Concat(tops, rest)
	}
	return slices.Concat(rest, tops)
}

// deletionPollInterval is the poll interval of WaitForDeletion.
const deletionPollInterval = 500 * time.Millisecond

// WaitForDeletion returns when no object and no pod of the job is left, so that its GPUs are free again, or with ctx's error.
func (c *Client) WaitForDeletion(ctx context.Context, job Deleted) error {
	return wait.PollUntilContextCancel(ctx, deletionPollInterval, true, func(ctx context.Context) (bool, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		labels := client.MatchingLabels{names.LabelJob: job.Name, names.LabelJobType: job.Kind}
		if err := c.api.List(ctx, pods, client.InNamespace(job.Namespace), labels); err != nil {
			return false, phrase.Errorf("waiting for the pods of job %s to end: %w", job.Name, err)
		}
		tops, err := c.findTops(ctx, job.Namespace, job.Name)
		if err != nil {
			return false, err
		}
		same := slices.ContainsFunc(tops, func(object client.Object) bool {
			return object.GetLabels()[names.LabelJobType] == job.Kind
		})
		return len(pods.Items) == 0 && !same, nil
	})
}

// Package submit is the write side: it creates the objects of a job in a cluster as a whole or not at all, deletes jobs, and moves nodes into and out
// of pools. Other packages decide what to write; this package knows the order of the writes, and how to undo them if the rest fails.
package submit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// writeTimeout bounds one write. Writes are not cancelled halfway: a cancelled request may still be carried out, and its outcome would be unknown.
const writeTimeout = 30 * time.Second

// ExistsError says that a job's name is taken in its namespace.
type ExistsError struct {
	Namespace, Name string
	// Kind is the kind of the job that has the name, such as training.
	Kind string
	// Object is the object in the way, such as "Deployment notebook-lab".
	Object string
}

func (e *ExistsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ExistsError) Message() phrase.Text {
	if e.Name == "" {
		return phrase.Textf("%s already exists in namespace %s and belongs to no job of gpuctl", e.Object, e.Namespace)
	}
	return phrase.Textf("job %q already exists in namespace %s (%s, %s)", e.Name, e.Namespace, e.Kind, e.Object)
}

// Client writes jobs and pools with the identity of its API client.
type Client struct {
	api client.Client
	// precondition must approve a change; nil approves all. See [Client.WithPrecondition].
	precondition func(metav1.Object) error
}

// fieldOwner is the field manager name of gpuctl.
const fieldOwner = "gpuctl"

// NewClient returns a Client that writes through api.
func NewClient(api client.Client) *Client {
	return &Client{api: client.WithFieldOwner(api, fieldOwner)}
}

// Create creates the objects of one job, the first of which owns the others. If one cannot be created, or ctx ends in between, the objects created
// before are deleted again and the error says so. An [ExistsError] means that a job of any kind has the name; then nothing was changed.
//
// Of two concurrent calls for jobs of one name, whatever their kinds, only one can succeed: the API server decides.
//
// If gpuctl is killed in between, the job is marked as incomplete. Creating the same job again completes it.
func (c *Client) Create(ctx context.Context, objects []client.Object) error {
	top, rest := objects[0], objects[1:]
	live, err := c.findUnfinished(ctx, top)
	if err != nil {
		return err
	}
	if live != nil {
		top.SetUID(live.GetUID())
		_, err := c.completeJob(ctx, live, rest)
		return err
	}
	if len(rest) > 0 {
		markIncomplete(top)
	}
	if err := c.createOne(ctx, top); err != nil {
		return err
	}
	made, err := c.completeJob(ctx, top, rest)
	if errors.As(err, new(*unsettledError)) {
		return err
	}
	if err != nil {
		return c.deleteCreated(ctx, append([]client.Object{top}, made...), err)
	}
	return nil
}

// DryRun asks the API server whether it would create the objects, and fills in what it would store; then, whether it would create their pods. It
// returns the checks that were skipped for lack of rights, one sentence each.
func (c *Client) DryRun(ctx context.Context, objects []client.Object) (unasked []phrase.Text, err error) {
	if err := c.checkFree(ctx, objects[0]); err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := c.api.Create(ctx, object, client.DryRunAll); err != nil {
			return nil, c.explainCreate(ctx, object, err)
		}
	}
	verdict, err := c.admitPods(ctx, objects[0], nil)
	if err != nil {
		return nil, err
	}
	var short *QuotaError
	if errors.As(verdict.Refused, &short) && !short.Excess.Never {
		return verdict.Unchecked, nil // the job would be created, and wait
	}
	return verdict.Unchecked, verdict.Refused
}

func (c *Client) createOne(ctx context.Context, object client.Object) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	gvk := object.GetObjectKind().GroupVersionKind()
	submission := markRequest(object)
	err := c.api.Create(ctx, object)
	object.GetObjectKind().SetGroupVersionKind(gvk) // decoding the response clears it
	switch {
	case isOutcomeUnknown(err):
		return c.resolveLostCreate(context.WithoutCancel(ctx), object, submission, err)
	case apierrors.IsAlreadyExists(err) && c.isOwnCreation(ctx, object, submission):
		return nil
	}
	return c.explainCreate(ctx, object, err)
}

// explainCreate turns "already exists" into an ExistsError that names the existing job.
func (c *Client) explainCreate(ctx context.Context, object client.Object, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) && object.GetObjectKind().GroupVersionKind().Kind == names.PodGroupKind:
		return phrase.Errorf("creating %s: the cluster knows no PodGroups, without which a job cannot run on several nodes: "+
			"have the administrators apply manifests/crds: %w", describeObject(object), err)
	case !apierrors.IsAlreadyExists(err):
		return phrase.Errorf("creating %s: %w", describeObject(object), err)
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	if c.api.Get(ctx, client.ObjectKeyFromObject(object), found) != nil {
		return &ExistsError{Namespace: object.GetNamespace(), Object: describeObject(object)}
	}
	found.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return newExistsError(found)
}

// checkFree looks for a job of the name, of any kind: different kinds create differently named objects, so the API server alone would not detect the
// conflict.
func (c *Client) checkFree(ctx context.Context, top client.Object) error {
	job := top.GetLabels()[names.LabelJob]
	found, err := c.findTops(ctx, top.GetNamespace(), job)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return newExistsError(found[0])
}

// topKinds are the kinds of top objects of jobs.
var topKinds = []schema.GroupVersionKind{
	batchv1.SchemeGroupVersion.WithKind("Job"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
}

// findTops finds the top objects of a job of gpuctl by its labels.
func (c *Client) findTops(ctx context.Context, namespace, job string) ([]client.Object, error) {
	var out []client.Object
	for _, kind := range topKinds {
		found, err := c.listObjects(ctx, kind, namespace, job)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (c *Client) listObjects(ctx context.Context, kind schema.GroupVersionKind, namespace, job string) ([]client.Object, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	ours := client.MatchingLabels{names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: job}
	if err := c.api.List(ctx, list, client.InNamespace(namespace), ours); err != nil {
		return nil, phrase.Errorf("looking for a %s of job %s: %w", kind.Kind, job, err)
	}
	out := make([]client.Object, len(list.Items))
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		out[i] = &list.Items[i]
	}
	return out, nil
}

// deleteCreated deletes the created objects, the last first, and returns the error that made it necessary.
func (c *Client) deleteCreated(ctx context.Context, made []client.Object, cause error) error {
	if len(made) == 0 {
		return cause
	}
	var failures []error
	for _, object := range slices.Backward(made) {
		if err := c.removeObject(context.WithoutCancel(ctx), object); err != nil {
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return phrase.Errorf("%w; undoing what was created failed too, delete it by hand: %w", cause, err)
	}
	return phrase.Errorf("%w; %s was deleted again, nothing is left behind", cause, describeObject(made[0]))
}

// removeObject deletes exactly this object, not a later one of the same name. A missing object is not an error.
func (c *Client) removeObject(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	return c.removeWithPreconditions(ctx, object, client.Preconditions{UID: &uid})
}

func (c *Client) removeWithPreconditions(ctx context.Context, object client.Object, only client.Preconditions) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.api.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), only)
	if client.IgnoreNotFound(err) != nil {
		return phrase.Errorf("deleting %s: %w", describeObject(object), err)
	}
	return nil
}

func setOwner(owner, object client.Object) {
	object.SetOwnerReferences([]metav1.OwnerReference{referenceTo(owner)})
}

func referenceTo(owner client.Object) metav1.OwnerReference {
	kind := owner.GetObjectKind().GroupVersionKind()
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID()}
}

func isOurs(object client.Object) bool {
	return object.GetLabels()[names.LabelManagedBy] == names.ManagedByGpuctl
}

func describeObject(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
}

// SetSubmitter records on the top object of a job who submits it, as the API server knows the user. The job's YAML cannot set this.
func SetSubmitter(top client.Object, user string) {
	annotations := maps.Clone(top.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationUser] = user
	top.SetAnnotations(annotations)
}

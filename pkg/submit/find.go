package submit

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Ref names a job.
type Ref struct {
	Namespace, Name string
	// Kind is training, inference, notebook or compute, or "" for any.
	Kind string
}

// AmbiguousError says that several jobs have one name.
type AmbiguousError struct {
	Ref Ref
	// Kinds are those of the jobs.
	Kinds []string
}

func (e *AmbiguousError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *AmbiguousError) Message() phrase.Text {
	return phrase.Textf("%d jobs in namespace %s are named %q, of the kinds %s: write %s/%s for one of them",
		len(e.Kinds), e.Ref.Namespace, e.Ref.Name, strings.Join(e.Kinds, ", "), e.Kinds[0], e.Ref.Name)
}

// matchLabels select the objects of the job.
func (r Ref) matchLabels() client.MatchingLabels {
	out := client.MatchingLabels{names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: r.Name}
	if r.Kind != "" {
		out[names.LabelJobType] = r.Kind
	}
	return out
}

// TopObject reads the top object of a job of gpuctl, which is a Job or a Deployment. It returns a [NotFoundError] or an [AmbiguousError] if there is
// not exactly one, and the precondition's error if that refuses it.
func (c *Client) TopObject(ctx context.Context, ref Ref) (client.Object, error) {
	var jobs batchv1.JobList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&jobs, &deployments} {
		if err := c.api.List(ctx, list, client.InNamespace(ref.Namespace), ref.matchLabels()); err != nil {
			return nil, phrase.Errorf("looking for job %s: %w", ref.Name, err)
		}
	}
	var found []client.Object
	for i := range jobs.Items {
		found = append(found, withKind(&jobs.Items[i], batchv1.SchemeGroupVersion.WithKind("Job")))
	}
	for i := range deployments.Items {
		found = append(found, withKind(&deployments.Items[i], appsv1.SchemeGroupVersion.WithKind("Deployment")))
	}
	switch len(found) {
	case 0:
		return nil, c.explainAbsent(ctx, ref)
	case 1:
		if err := c.checkPrecondition(found[0]); err != nil {
			return nil, err
		}
		return found[0], nil
	}
	ambiguous := &AmbiguousError{Ref: ref}
	for _, object := range found {
		ambiguous.Kinds = append(ambiguous.Kinds, jobKindOf(object))
	}
	return nil, ambiguous
}

// withKind sets the kind of an object, which lists leave out.
func withKind(object client.Object, kind schema.GroupVersionKind) client.Object {
	object.GetObjectKind().SetGroupVersionKind(kind)
	return object
}

// jobKindOf is the kind of the job that an object belongs to, such as training.
func jobKindOf(object metav1.Object) string { return object.GetLabels()[names.LabelJobType] }

// jobNameOf is the name of the job that an object belongs to.
func jobNameOf(object metav1.Object) string { return object.GetLabels()[names.LabelJob] }

// DocumentIfExists is [Client.Document] for a job that may not exist. It returns the zero document if there is not exactly one job of gpuctl, or if
// its YAML cannot be parsed.
func (c *Client) DocumentIfExists(ctx context.Context, ref Ref) (workload.Document, error) {
	top, err := c.TopObject(ctx, ref)
	if isNotFound(err) || errors.As(err, new(*ForeignJobError)) || errors.As(err, new(*AmbiguousError)) {
		return workload.Document{}, nil
	}
	if err != nil {
		return workload.Document{}, err
	}
	doc, err := submittedDocument(top, top.GetAnnotations()[names.AnnotationSubmitted])
	if err != nil {
		return workload.Document{}, nil //nolint:nilerr // the job gets its new YAML anyway
	}
	return doc, nil
}

// Document parses the current YAML of a job.
func (c *Client) Document(ctx context.Context, ref Ref) (workload.Document, error) {
	top, err := c.TopObject(ctx, ref)
	if err != nil {
		return workload.Document{}, err
	}
	return submittedDocument(top, top.GetAnnotations()[names.AnnotationSubmitted])
}

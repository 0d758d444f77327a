package submit

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
)

// AdmissionResult says whether the API server would admit a job and its pods. Quotas, limit ranges, Pod Security and policies apply to the pods,
// which controllers create only later.
type AdmissionResult struct {
	// Refused is why it would not, nil if nothing prevents the job.
	Refused error
	// Unchecked lists checks that were skipped for lack of rights, one sentence each.
	Unchecked []phrase.Text
}

// PodsRefusedError says that the API server would admit a job but none of its pods.
type PodsRefusedError struct {
	Job   string
	Cause error
}

func (e *PodsRefusedError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *PodsRefusedError) Message() phrase.Text {
	return phrase.Textf("the pods of job %s would be refused: %s", e.Job, e.Cause)
}

func (e *PodsRefusedError) Unwrap() error { return e.Cause }

// QuotaError says that a quota has too little left for all pods of a job.
type QuotaError struct{ Excess quota.Excess }

func (e *QuotaError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *QuotaError) Message() phrase.Text { return e.Excess.Message() }

// CheckAdmission asks the API server whether it would create the objects of a job, and its pods. Nothing is created or changed. A name conflict does
// not count: the user may intend to replace the job. Quotas are checked with the pods of the earlier jobs, whose first objects are given: they would
// be created together. The error says that the API server could not be asked.
func (c *Client) CheckAdmission(ctx context.Context, objects []client.Object, before ...client.Object) (AdmissionResult, error) {
	var verdict AdmissionResult
	top := objects[0]
	for _, object := range objects {
		may, err := c.mayCreate(ctx, object.GetObjectKind().GroupVersionKind(), object.GetNamespace())
		if err != nil {
			return AdmissionResult{}, err
		}
		if !may {
			verdict.Unchecked = append(verdict.Unchecked, uncheckedText(phrase.Quote(describeObject(object)), object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace()))
			continue
		}
		err = c.api.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
		case isUnanswered(err):
			return AdmissionResult{}, phrase.Errorf("asking whether %s would be created: %w", describeObject(object), err)
		default:
			verdict.Refused = c.explainCreate(ctx, object, err)
			return verdict, nil
		}
	}
	pods, err := c.admitPods(ctx, top, before)
	if err != nil {
		return AdmissionResult{}, err
	}
	pods.Unchecked = slices.Concat(verdict.Unchecked, pods.Unchecked)
	return pods, nil
}

// admitPods asks whether the API server would create the pods of a job: it checks one pod, since all are alike, and all of them against the quotas.
func (c *Client) admitPods(ctx context.Context, top client.Object, before []client.Object) (AdmissionResult, error) {
	pod := podOf(top)
	if pod == nil {
		return AdmissionResult{}, nil
	}
	over, err := c.overQuota(ctx, top, before)
	if err != nil {
		return AdmissionResult{}, err
	}
	refused := func(cause error) *PodsRefusedError {
		if over != nil && (cause == nil || isOverQuota(cause)) {
			cause = &QuotaError{Excess: *over}
		}
		return &PodsRefusedError{Job: jobNameOf(top), Cause: cause}
	}
	may, err := c.mayCreate(ctx, pod.GroupVersionKind(), pod.Namespace)
	if err != nil {
		return AdmissionResult{}, err
	}
	var verdict AdmissionResult
	if may {
		err := c.api.Create(ctx, pod, client.DryRunAll)
		if isUnanswered(err) {
			return AdmissionResult{}, phrase.Errorf("asking whether the pods of job %s would be created: %w", jobNameOf(top), err)
		}
		if err != nil {
			verdict.Refused = refused(err)
			return verdict, nil
		}
	} else {
		verdict.Unchecked = append(verdict.Unchecked, uncheckedText(phrase.Textf("the pods of job %s", jobNameOf(top)), "Pod", pod.Namespace))
	}
	if over != nil {
		verdict.Refused = refused(nil)
	}
	return verdict, nil
}

// isOverQuota reports whether a quota refused an object.
func isOverQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// overQuota returns which quota has too little left for all pods of a job, together with those of the earlier jobs, as far as the quotas are
// readable.
func (c *Client) overQuota(ctx context.Context, top client.Object, before []client.Object) (*quota.Excess, error) {
	var list corev1.ResourceQuotaList
	err := c.api.List(ctx, &list, client.InNamespace(top.GetNamespace()))
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, phrase.Errorf("listing quotas: %w", err)
	}
	quotas := list.Items
	for _, other := range before {
		if other.GetNamespace() == top.GetNamespace() {
			quotas = quota.WithJob(quotas, other)
		}
	}
	return quota.FindJobExcess(quotas, top), nil
}

func uncheckedText(what phrase.Text, kind, namespace string) phrase.Text {
	return phrase.Textf("whether the API server would take %s could not be asked: you may not create objects of kind %s in namespace %s",
		what, kind, namespace)
}

// mayCreate asks whether the user may create objects of a kind.
func (c *Client) mayCreate(ctx context.Context, kind schema.GroupVersionKind, namespace string) (bool, error) {
	mapping, err := c.api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return true, nil // the API server will report that it does not know the kind
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: kind.Group, Resource: mapping.Resource.Resource,
		},
	}}
	if err := c.api.Create(ctx, review); err != nil {
		return false, phrase.Errorf("asking for your rights: %w", err)
	}
	return review.Status.Allowed, nil
}

// isUnanswered reports whether an error is no answer of the API server, or one of which nothing follows.
func isUnanswered(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsUnauthorized(err)
}

// podOf is a pod of a job as its controller would create it, nil for a job that wants none.
func podOf(top client.Object) *corev1.Pod {
	var template corev1.PodTemplateSpec
	switch job := top.(type) {
	case *batchv1.Job:
		template = job.Spec.Template
	case *appsv1.Deployment:
		template = job.Spec.Template
	default:
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.Namespace, pod.GenerateName = top.GetNamespace(), top.GetName()+"-"
	return pod
}

// refusedByPolicy matches the API server's message for a refusal by a ValidatingAdmissionPolicy. It has no field for either part.
var refusedByPolicy = regexp.MustCompile(`(?s)^ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']+' )?denied request: (.*)$`)

// PolicyRefusal reports whether an error is a policy's refusal. It returns the policy's name, and the error with the policy's own message, which says
// what to do, without the API server's text around it.
func PolicyRefusal(err error) (policy, text string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return "", "", false
	}
	for _, cause := range status.Status().Details.Causes {
		if parts := refusedByPolicy.FindStringSubmatch(cause.Message); parts != nil {
			return parts[1], strings.Replace(err.Error(), status.Status().Message, parts[2], 1), true
		}
	}
	return "", "", false
}

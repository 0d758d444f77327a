package eviction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/utils/ptr"
)

// API sends an eviction of the pod named in it.
type API interface {
	SendEviction(ctx context.Context, eviction *policyv1.Eviction) error
}

// TypedClient is the API of client-go.
type TypedClient struct {
	Client policyclient.PolicyV1Interface
}

// SendEviction sends an eviction.
func (t TypedClient) SendEviction(ctx context.Context, eviction *policyv1.Eviction) error {
	return t.Client.Evictions(eviction.Namespace).Evict(ctx, eviction)
}

// Outcome is the result of an eviction.
type Outcome int

// The outcomes.
const (
	// Refused evictions have an error with the reason: a missing right, an admission webhook, two budgets for one pod. The pod stays.
	Refused Outcome = iota
	// Evicted pods leave now.
	Evicted
	// Gone pods had ended before, or their name belongs to another pod by now.
	Gone
	// OverBudget pods stay for now: a disruption budget allows no more disruptions.
	OverBudget
	// Busy says that the API server currently accepts no more requests. The pod stays for now.
	Busy
)

// IsLeaving reports whether the pod is, or soon will be, gone.
func (o Outcome) IsLeaving() bool { return o == Evicted || o == Gone }

// Evict evicts a pod, but no other pod that has its name by now. It respects disruption budgets, and does not count as a retry of a Job. The
// error is nil unless the outcome is [Refused], [OverBudget] or [Busy].
func Evict(ctx context.Context, api API, pod *corev1.Pod) (Outcome, error) {
	err := api.SendEviction(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
	})
	return outcomeOf(err), unlessGone(err)
}

// outcomeOf interprets a response. Both a budget and a busy API server return 429; the cause distinguishes them.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Evicted
	case isGone(err):
		return Gone
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return OverBudget
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return Busy
	}
	return Refused
}

func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// isGone interprets 404, and 409: the precondition names the pod's UID, and nothing else about it.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

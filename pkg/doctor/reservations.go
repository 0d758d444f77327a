package doctor

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// schedulerAccount is the scheduler's service account, as in manifests/scheduler.
const schedulerAccount = "system:serviceaccount:kube-system:gpu-scheduler"

// readSchedulerRights finds out whether the cluster has GPUReservations that the scheduler may not read. It reports nothing to users who may not check the
// rights of others, or who run the scheduler under another account.
func (f *Facts) readSchedulerRights(ctx context.Context, client kubernetes.Interface) error {
	kinds, err := client.Discovery().ServerResourcesForGroupVersion(names.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return phrase.Errorf("reading the kinds of %s: %w", names.GroupName, err)
	}
	if !slices.ContainsFunc(kinds.APIResources, func(kind metav1.APIResource) bool { return kind.Name == "gpureservations" }) {
		return nil
	}
	binds, err := isSchedulerAllowed(ctx, client, authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "binding"})
	if err != nil || !binds {
		return ignoreForbidden(err)
	}
	reads, err := isSchedulerAllowed(ctx, client, authorizationv1.ResourceAttributes{Verb: "list", Group: names.GroupName, Resource: "gpureservations"})
	f.SchedulerLacksRights = err == nil && !reads
	return ignoreForbidden(err)
}

// isSchedulerAllowed checks a right of the scheduler.
func isSchedulerAllowed(ctx context.Context, client kubernetes.Interface, right authorizationv1.ResourceAttributes) (bool, error) {
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: schedulerAccount, ResourceAttributes: &right,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, phrase.Errorf("asking for the scheduler's rights: %w", err)
	}
	return review.Status.Allowed, nil
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// checkReservations reports that the scheduler reserves no nodes. It returns false if it does, or if unknown.
func (f *Facts) checkReservations() (Check, bool) {
	return Check{
		Name: "reservations", Status: Warning,
		Text:   phrase.Textf("the scheduler may not read GPUReservations, and keeps no node for anybody, nor for maintenance"),
		Advice: phrase.Textf("give it the rights of its release: kubectl apply -k manifests/scheduler, or upgrade the chart"),
	}, f.SchedulerLacksRights
}

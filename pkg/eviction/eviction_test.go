package eviction

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// TestHoldOf has each kind of pod and what each purpose makes of it.
func TestHoldOf(t *testing.T) {
	purposes := []Purpose{Defragmentation, Reservation, Drain, BrokenGPU, SpotMachine, LostMembers}
	all := func(hold Hold) map[Purpose]Hold {
		out := map[Purpose]Hold{}
		for _, purpose := range purposes {
			out[purpose] = hold
		}
		return out
	}
	of := func(kind, version string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, APIVersion: version, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
	job := of("Job", "batch/v1")
	for name, tc := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		want        map[Purpose]Hold
	}{
		"a pod of a Job": {owners: job, want: all("")},
		"no-migration":   {owners: job, annotations: map[string]string{"g8s.host/no-migration": "true"}, want: all(NoMigration)},
		"no-migration that says no more than false": {owners: job, annotations: map[string]string{"g8s.host/no-migration": "false"}, want: all("")},
		"a pod of a DaemonSet":                      {owners: of("DaemonSet", "apps/v1"), want: all(OfNode)},
		"a static pod":                              {owners: of("Node", "v1"), annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}, want: all(OfNode)},
		"a DaemonSet of somebody else's kind":       {owners: of("DaemonSet", "apps.kruise.io/v1"), want: all("")},
		"no controller":                             {want: map[Purpose]Hold{Defragmentation: NoController, Reservation: NoController, Drain: NoController}},
		"a user names a Node as owner": {
			owners: of("Node", "v1"), want: map[Purpose]Hold{Defragmentation: NoController, Reservation: NoController, Drain: NoController},
		},
		"not safe to evict": {
			owners: job, annotations: map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
			want: map[Purpose]Hold{Defragmentation: NotSafeToEvict, Reservation: NotSafeToEvict},
		},
		"two holds at once": {annotations: map[string]string{"g8s.host/no-migration": "true"}, want: all(NoMigration)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Annotations: tc.annotations}}
			for _, purpose := range purposes {
				if got := HoldOf(pod, purpose); got != tc.want[purpose] {
					t.Errorf("%s: %q, want %q", purpose, got, tc.want[purpose])
				}
			}
		})
	}
}

// answers is an API that answers the same each time, and keeps what it was asked.
type answers struct {
	err  error
	sent *policyv1.Eviction
}

func (a *answers) SendEviction(_ context.Context, eviction *policyv1.Eviction) error {
	a.sent = eviction
	return a.err
}

// TestEvict has each answer of the API server and what it means. 429 is said by a budget, and by an API server that is busy.
func TestEvict(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	overBudget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	overBudget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget x needs 2 healthy pods"}}
	for name, tc := range map[string]struct {
		answer error
		want   Outcome
		failed bool
	}{
		"201":                    {want: Evicted},
		"404":                    {answer: apierrors.NewNotFound(pods, "p"), want: Gone},
		"409: another UID":       {answer: apierrors.NewConflict(pods, "p", errors.New("UID")), want: Gone},
		"429 of a budget":        {answer: overBudget, want: OverBudget, failed: true},
		"429 of the API server":  {answer: apierrors.NewTooManyRequests("too many requests, please try again later", 1), want: Busy, failed: true},
		"504":                    {answer: apierrors.NewTimeoutError("couldn't update PodDisruptionBudget due to conflicts", 10), want: Busy, failed: true},
		"403":                    {answer: apierrors.NewForbidden(pods, "p", errors.New("no")), want: Refused, failed: true},
		"500: two budgets":       {answer: apierrors.NewInternalError(errors.New("more than one PodDisruptionBudget")), want: Refused, failed: true},
		"no answer":              {answer: context.DeadlineExceeded, want: Refused, failed: true},
		"a wrapped 404 is a 404": {answer: errors.Join(apierrors.NewNotFound(pods, "p")), want: Gone},
	} {
		t.Run(name, func(t *testing.T) {
			api := &answers{err: tc.answer}
			got, err := Evict(t.Context(), api, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}})
			if got != tc.want || (err != nil) != tc.failed || got.IsLeaving() != (got == Evicted || got == Gone) {
				t.Errorf("%v, %v; want %v", got, err, tc.want)
			}
			if s := api.sent; s.Namespace != "n" || s.Name != "p" || *s.DeleteOptions.Preconditions.UID != "u" {
				t.Errorf("sent %v", s)
			}
		})
	}
}

// Package dependents starts jobs once the jobs that they depend on have ended as required.
//
// Such a job is created suspended: it has no pods, so neither a time limit runs nor quota is used while it waits. Its remaining dependencies are
// stored on it. A dependency is removed as soon as its end is seen, so that the ended job may be deleted before the others end.
package dependents

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

// Name is the controller's name in logs and metrics.
const Name = "dependents"

// retryConflict is the requeue interval after a conflicting change of a Job.
const retryConflict = time.Second

// eventStarted is the reason of the event on a job with no dependencies left.
const eventStarted = "DependenciesEnded"

// Reconciler handles Jobs with dependencies.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&batchv1.Job{}, builder.WithPredicates(predicate.NewPredicateFuncs(isWaiting))).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.dependentsOf), builder.WithPredicates(predicate.NewPredicateFuncs(hasEnded))).
		Complete(traced.NewReconciler(Name, r))
}

func isWaiting(object client.Object) bool { return len(jobplan.PendingDependencies(object)) > 0 }

func hasEnded(object client.Object) bool {
	switch jobplan.StateOf(object) {
	case jobplan.StateSucceeded, jobplan.StateFailed, jobplan.StateCancelled:
		return object.GetLabels()[g8s.LabelJob] != ""
	}
	return false
}

// dependentsOf returns the Jobs that depend on an ended job.
func (r *Reconciler) dependentsOf(ctx context.Context, ended client.Object) []reconcile.Request {
	var list batchv1.JobList
	at := client.MatchingFields{index.WaitsFor: ended.GetLabels()[g8s.LabelJob]}
	if err := r.Client.List(ctx, &list, client.InNamespace(ended.GetNamespace()), at); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The jobs were not found that wait for one that has ended", "namespace", ended.GetNamespace(), "job", ended.GetName())
		return nil
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}
	}
	return out
}

// Reconcile removes the fulfilled dependencies of a Job and starts it when none are left.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var held batchv1.Job
	if err := r.Client.Get(ctx, request.NamespacedName, &held); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	names := jobplan.PendingDependencies(&held)
	if len(names) == 0 {
		return ctrl.Result{}, nil
	}
	states, err := r.statesOf(ctx, held.Namespace, names)
	if err != nil {
		return ctrl.Result{}, err
	}
	step, err := jobplan.SettleDependencies(&held, states)
	if err != nil || step.Patch == nil {
		return ctrl.Result{}, err
	}
	err = r.Client.Patch(ctx, &held, client.RawPatch(types.MergePatchType, step.Patch))
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: retryConflict}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("letting job %s go on: %w", held.Name, err))
	case len(jobplan.PendingDependencies(&held)) == 0:
		r.Events.Eventf(&held, nil, corev1.EventTypeNormal, eventStarted, "Start", "all jobs that it starts after have ended as it asks")
	}
	return ctrl.Result{}, nil
}

// statesOf returns the states of Jobs in a namespace. It omits missing Jobs, and Jobs with the name that are not gpuctl's.
func (r *Reconciler) statesOf(ctx context.Context, namespace string, names []string) (map[string]jobplan.State, error) {
	out := map[string]jobplan.State{}
	var failed []error
	for _, name := range names {
		var job batchv1.Job
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &job)
		switch {
		case err == nil && job.Labels[g8s.LabelJob] == name:
			out[name] = jobplan.StateOf(&job)
		case client.IgnoreNotFound(err) != nil:
			failed = append(failed, fmt.Errorf("reading job %s: %w", name, err))
		}
	}
	return out, errors.Join(failed...)
}

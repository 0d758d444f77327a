package replace

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
)

// Name is the controller's name in logs and metrics.
const Name = "replace"

const (
	// workers bounds the Jobs reconciled at once: each costs a few requests, and draining a rack disrupts hundreds.
	workers = 16
	// eventReplacing is the reason of the event on a Job whose disrupted pod is replaced at once, eventUnreadable of the event on one with an invalid
	// annotation.
	eventReplacing  = "ReplacingDisruptedPod"
	eventUnreadable = "UnreadableFailures"
)

// Reconciler handles Jobs of our scheduler.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock

	limiter replacementLimiter
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&batchv1.Job{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasFailures))).
		Owns(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(isOfInterest))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(traced.NewReconciler(Name, r))
}

// hasFailures reports whether a Job has failures to restore on its pods: its annotation changed after the pods were created, or we saw it later.
func hasFailures(object client.Object) bool {
	return object.GetAnnotations()[g8s.AnnotationIndexFailures] != ""
}

// isOfInterest reports whether a pod may have to be released, or is a member whose failures may have to be restored.
func isOfInterest(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || !g8s.IsOurScheduler(pod.Spec.SchedulerName) || !HasFinalizer(pod) {
		return false
	}
	return pod.Status.Phase == corev1.PodFailed || pod.Annotations[batchv1.JobIndexFailureCountAnnotation] != ""
}

// Reconcile releases the disrupted pods of a Job and restores the failures of its members.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var job batchv1.Job
	if err := r.Client.Get(ctx, request.NamespacedName, &job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pods, err := r.podsOf(ctx, &job)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan, err := Decide(&job, pods)
	if err != nil {
		r.Events.Eventf(&job, nil, corev1.EventTypeWarning, eventUnreadable, "Replace", "%v: disrupted pods are replaced when Kubernetes does it", err)
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return ctrl.Result{}, r.applyPlan(ctx, &job, plan)
}

// podsOf returns the cached pods that a Job controls.
func (r *Reconciler) podsOf(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(job.Namespace), client.MatchingFields{index.JobUID: string(job.UID)}); err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// applyPlan records failures before it releases the pods that carry them.
func (r *Reconciler) applyPlan(ctx context.Context, job *batchv1.Job, plan Plan) error {
	if plan.Remember != nil {
		if err := r.rememberFailures(ctx, job, plan.Remember); err != nil {
			return err
		}
	}
	var failed []error
	for _, pod := range plan.Release {
		at := memberKey{job: job.UID, index: pod.Annotations[batchv1.JobCompletionIndexAnnotation]}
		if r.limiter.allowReplacement(pod.UID, at, r.Clock.Now()) {
			failed = append(failed, r.releasePod(ctx, job, pod))
		}
	}
	for _, restoration := range plan.Restore {
		failed = append(failed, r.restoreFailures(ctx, restoration))
	}
	return errors.Join(failed...)
}

// rememberFailures writes failures on a Job if it is unchanged. Otherwise its next event triggers another reconciliation.
func (r *Reconciler) rememberFailures(ctx context.Context, job *batchv1.Job, failures Failures) error {
	text, err := failures.encodeText()
	if err != nil {
		return fmt.Errorf("writing the failures of the members of Job %s: %w", job.Name, err)
	}
	changed := job.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, g8s.AnnotationIndexFailures, text)
	patch := client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("remembering the failures of the members of Job %s: %w", job.Name, err)
	}
	return nil
}

// releasePod removes the Job controller's finalizer from a pod, as that controller does.
func (r *Reconciler) releasePod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, batchv1.JobTrackingFinalizer)
	err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted or replaced: the Job controller was faster
	}
	if err != nil {
		return fmt.Errorf("taking the finalizer from pod %s: %w", pod.Name, err)
	}
	replaced.Inc()
	ctrl.LoggerFrom(ctx).V(2).Info("Let a disrupted pod go", "pod", pod.Name, "node", pod.Spec.NodeName)
	r.Events.Eventf(job, pod, corev1.EventTypeNormal, eventReplacing, "Replace",
		"pod %s was disrupted, which costs no retry: the next one is made without a wait", pod.Name)
	return nil
}

func (r *Reconciler) restoreFailures(ctx context.Context, to Restoration) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`,
		to.Pod.UID, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(int(to.Failures)))
	err := r.Client.Patch(ctx, to.Pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restoring the failures of pod %s: %w", to.Pod.Name, err)
	}
	return nil
}

// Package quotaline serializes the pod creation of gangs in a namespace whose ResourceQuota is too small for all of them.
//
// Kubernetes creates the pods of a Job one by one, as far as a quota admits them. A gang starts only when all of its pods exist, so two gangs that
// each got a part of the quota would wait for each other forever. quota.Turns decides which gang comes first. The others are suspended, which deletes
// their pods, none of which runs, and frees their part.
package quotaline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/quota"
)

// Name is the controller's name in logs and metrics.
const Name = "quotaline"

// gathering is how long changes of a namespace are collected: a quota and a Job change with each pod, and each reconciliation reads all jobs.
const gathering = time.Second

// The reasons of events on jobs.
const (
	eventHeld    = "HeldForQuota"
	eventResumed = "ResumedForQuota"
)

// Reconciler handles the gangs of namespaces. The name of a request is that of a namespace.
type Reconciler struct {
	Client client.Client
	// Live reads PodGroups, which are in no cache.
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	namespace := enqueueNamespace()
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		Watches(&corev1.ResourceQuota{}, namespace).
		Watches(&batchv1.Job{}, namespace, builder.WithPredicates(predicate.NewPredicateFuncs(isGang))).
		Complete(traced.NewReconciler(Name, r))
}

// requests is the queue of a controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueueNamespace enqueues a namespace once for all changes within a period.
func enqueueNamespace() handler.EventHandler {
	look := func(object client.Object, queue requests) {
		queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}, gathering)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) { look(e.Object, queue) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) { look(e.ObjectNew, queue) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requests) { look(e.Object, queue) },
	}
}

// isGang reports whether a gpuctl Job creates the pods of a gang, and no other program suspends it or creates its pods.
func isGang(object client.Object) bool {
	job, ok := object.(*batchv1.Job)
	return ok && groupOf(job) != "" && job.Labels[g8s.LabelJob] != "" && job.Labels[g8s.LabelKueueQueue] == "" &&
		ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName
}

// Reconcile decides which gangs of a namespace may create their pods.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var quotas corev1.ResourceQuotaList
	if err := r.Client.List(ctx, &quotas, client.InNamespace(request.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the quotas of namespace %s: %w", request.Name, err)
	}
	jobs, gangs, err := r.listGangs(ctx, request.Name, quotas.Items)
	if err != nil || len(gangs) == 0 {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	turns, again := quota.PlanGangs(quotas.Items, gangs, now)
	var failed []error
	for _, turn := range turns {
		failed = append(failed, r.applyTurn(ctx, jobs[turn.Job], turn, now))
	}
	if err := errors.Join(failed...); err != nil {
		return ctrl.Result{}, err
	}
	if again > 0 {
		again = max(again, gathering)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// member is a Job with all or a part of a gang's pods.
type member struct {
	quota.Gang
	job   *batchv1.Job
	group string
	held  bool
}

// listGangs returns the gangs of a namespace that wait for pods, and their Jobs by name.
func (r *Reconciler) listGangs(ctx context.Context, namespace string, quotas []corev1.ResourceQuota) (map[string]*batchv1.Job, []quota.Gang, error) {
	var list batchv1.JobList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the jobs of namespace %s: %w", namespace, err)
	}
	units := map[string][]*member{}
	for i := range list.Items {
		job := &list.Items[i]
		held := jobplan.HeldForQuota(job)
		if !isGang(job) || !held && jobplan.StateOf(job) != jobplan.StateActive {
			continue
		}
		one, err := r.readMember(ctx, job, held)
		if err != nil {
			return nil, nil, err
		}
		units[one.group] = append(units[one.group], one)
	}
	jobs, out := map[string]*batchv1.Job{}, []quota.Gang(nil)
	for _, group := range slices.Sorted(maps.Keys(units)) {
		rules, err := r.readRules(ctx, namespace, group, units[group], quotas)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range waitingMembers(group, units[group], rules) {
			jobs[one.Job] = one.job
			out = append(out, one.Gang)
		}
	}
	return jobs, out, nil
}

// readRules reads a PodGroup if it can affect the order. Thousands of gangs without pods cause no request.
func (r *Reconciler) readRules(ctx context.Context, namespace, group string, members []*member, quotas []corev1.ResourceQuota) (gangs.Rules, error) {
	matters := func(one *member) bool {
		changed := len(quotas) > 0 && one.job.Generation > 1 && !one.Begun // it may now have fewer pods than its gang needs
		return changed || one.Pods > 0 && one.Pods < one.Needs || one.held && len(quota.FilterNeverFits(quota.FindExcess(quotas, one.Pod, one.Needs))) > 0
	}
	if len(members) == 1 && !matters(members[0]) {
		return gangs.Rules{}, nil
	}
	return gangs.RulesOf(ctx, r.Live, namespace, group) //nolint:wrapcheck // it says what was read
}

// waitingMembers returns the Jobs of a PodGroup that wait for pods or are suspended. If the PodGroup spans several Jobs, a Job with all of its pods waits
// with the others.
func waitingMembers(group string, members []*member, of gangs.Rules) (out []*member) {
	if !of.SeveralOwners {
		for _, one := range members {
			one.limitPods(int64(of.Least))
		}
		return slices.DeleteFunc(members, func(one *member) bool { return !one.isWaiting() })
	}
	slices.SortFunc(members, func(a, b *member) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Job, b.Job)) })
	left, all := int64(of.Least), int64(0)
	for _, one := range members {
		all += one.Needs
	}
	for _, one := range members {
		one.Unit, one.Short = group, int64(of.Least) > all
		if int64(of.Least) > 0 && !one.Short {
			one.Needs = min(one.Needs, left)
			left -= one.Needs
		}
	}
	if !slices.ContainsFunc(members, (*member).isWaiting) {
		return nil
	}
	return members
}

// limitPods sets the pods that a Job needs to the minimum of its gang.
func (m *member) limitPods(least int64) {
	if m.Short = least > m.Needs; least > 0 && !m.Short {
		m.Needs = least
	}
}

// groupOf returns the PodGroup that the pods of a Job name, "" for none.
func groupOf(job *batchv1.Job) string {
	group, _ := gang.NamedGroup(&corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta})
	return group.Name
}

// isWaiting reports whether a Job takes part in the order.
func (m *member) isWaiting() bool { return m.held || m.Pods < m.Needs || m.Short && !m.Begun }

// readMember reads the facts about a Job that matter to quotas.
func (r *Reconciler) readMember(ctx context.Context, job *batchv1.Job, held bool) (*member, error) {
	out := &member{job: job, held: held, group: groupOf(job), Gang: quota.Gang{
		Job: job.Name, Rank: rankOf(job), Created: job.CreationTimestamp.Time, Needs: int64(ptr.Deref(job.Spec.Parallelism, 1)),
		Pod: &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec},
	}}
	out.Newest = r.Clock.Now() // not started yet
	if job.Status.StartTime != nil {
		out.Newest = job.Status.StartTime.Time
	}
	if at, err := time.Parse(time.RFC3339, job.Annotations[g8s.AnnotationQuotaTurn]); err == nil {
		out.Turn = at
	}
	if held {
		out.Behind = job.Annotations[g8s.AnnotationQuotaBehind]
		return out, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingFields{index.JobUID: string(job.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of job %s: %w", job.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.CreationTimestamp.After(out.Newest) {
			out.Newest = pod.CreationTimestamp.Time
		}
		out.Begun = out.Begun || pod.Spec.NodeName != ""
		if !gpu.HasEnded(pod) && pod.DeletionTimestamp == nil {
			out.Pods++
		}
	}
	return out, nil
}

// rankOf returns the rank of a job's priority label.
func rankOf(job *batchv1.Job) int {
	return map[string]int{"high": 1, "low": -1}[job.Labels[g8s.LabelPriority]]
}

// applyTurn writes a decision on its Job, if the Job is unchanged.
func (r *Reconciler) applyTurn(ctx context.Context, job *batchv1.Job, turn quota.GangChange, now time.Time) error {
	patch, err := jobplan.QuotaTurnPatch(job, turn, now)
	if err != nil {
		return err
	}
	wasHeld := job.Annotations[g8s.AnnotationQuotaBehind] != "" // only the gang before it changed
	job = job.DeepCopy()                                        // it belongs to the cache, and Patch overwrites it
	err = r.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil // its change triggers another reconciliation
	case err != nil:
		return fmt.Errorf("giving job %s/%s its turn: %w", job.Namespace, job.Name, err)
	case turn.Suspend && !wasHeld:
		r.Events.Eventf(job, nil, corev1.EventTypeNormal, eventHeld, "Hold",
			"a quota of the namespace has too little for two gangs at once, and job %s comes first: this one's pods, none of which runs, are made again after that", turn.Behind)
	case turn.Resume:
		r.Events.Eventf(job, nil, corev1.EventTypeNormal, eventResumed, "Resume", "it is first in line for the quota of its namespace: its pods are made")
	}
	return nil
}

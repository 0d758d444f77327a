package spot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
)

// Name is the controller's name in logs and metrics.
const Name = "spot"

const (
	// workers bounds the SpotPools reconciled at once, and buyers the machines bought at once for one of them.
	workers = 8
	buyers  = 8
	// callTimeout bounds a call to a cloud.
	callTimeout = 20 * time.Second
	// gathering is how long changes of nodes are collected. conflictRetry is the requeue interval after a conflict.
	gathering     = time.Second
	conflictRetry = 200 * time.Millisecond
)

// The reasons of events on SpotPools.
const (
	eventBought     = "MachineBought"
	eventNotBought  = "MachineNotBought"
	eventTerminated = "MachineTerminated"
	eventNotEnded   = "MachineNotTerminated"
	eventReplaced   = "MachineLost"
	eventRefused    = "NodeRefused"
	eventNotJoined  = "MachinesDoNotJoin"
)

// Reconciler handles SpotPools.
type Reconciler struct {
	Client client.Client
	// Live reads committed state, not the cache, so that no purchase is missed.
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Clouds are those that there are, by provider.
	Clouds map[string]Connect
	// SecretsNamespace is where the Secrets are that SpotPools name.
	SecretsNamespace string

	// reported is the last message about each pod that stays, by UID, and each refused node, by name and instance.
	reported sync.Map
	// secrets watches the Secrets once a SpotPool names one; nil where nothing watches them.
	secrets *secretWatch
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	var err error
	if r.secrets, err = newSecretWatch(manager, r.SecretsNamespace); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&g8s.SpotPool{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, r.enqueueGathered()).
		WatchesRawSource(source.Channel(r.secrets.changes, handler.EnqueueRequestsFromMapFunc(r.poolsNaming))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(traced.NewReconciler(Name, r))
}

// enqueueGathered enqueues the SpotPools of changed nodes. It collects changes, because each reconciliation lists the cloud's machines.
func (r *Reconciler) enqueueGathered() handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q requests, node client.Object) {
		for _, request := range r.poolsOf(ctx, node) {
			q.AddAfter(request, gathering)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) { enqueue(ctx, q, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { enqueue(ctx, q, e.Object) },
	}
}

// poolsOf returns the SpotPools that a node may belong to.
func (r *Reconciler) poolsOf(ctx context.Context, node client.Object) []reconcile.Request {
	if name := node.GetLabels()[g8s.LabelSpotPool]; name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	}
	var list g8s.SpotPoolList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // they are reconciled again soon
	}
	var out []reconcile.Request
	for i := range list.Items {
		if strings.HasPrefix(node.GetName(), list.Items[i].Name+"-") {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile plans the actions for a SpotPool, records them in the status, and then performs them.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pool := &g8s.SpotPool{}
	if err := r.Live.Get(ctx, request.NamespacedName, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllerutil.ContainsFinalizer(pool, g8s.FinalizerSpotPool) {
		if pool.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		if err := r.setFinalizer(ctx, pool, true); err != nil {
			return requeueOnConflict(err)
		}
	}
	v, err := r.gatherFacts(ctx, pool)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := Decide(v.facts)
	if err := r.writeStatus(ctx, pool, v, &plan); err != nil {
		return requeueOnConflict(err)
	}
	r.reportRefused(pool, plan.Refused)
	failed := []error{r.applySteps(ctx, v, plan.Nodes)}
	if len(plan.Launch) > 0 {
		if err := r.buyMachines(ctx, pool, v.cloud, &plan); err != nil {
			return requeueOnConflict(errors.Join(append(failed, err)...))
		}
		plan.Again = min(plan.Again, time.Second)
	}
	failed = append(failed, r.terminateMachines(ctx, v, plan))
	if plan.Done {
		failed = append(failed, r.setFinalizer(ctx, pool, false))
	}
	if err := errors.Join(failed...); err != nil {
		return requeueOnConflict(err)
	}
	return ctrl.Result{RequeueAfter: plan.Again}, nil
}

// requeueOnConflict retries at once after a conflicting write, which is no failure.
func requeueOnConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) setFinalizer(ctx context.Context, pool *g8s.SpotPool, on bool) error {
	before := pool.DeepCopy()
	if on {
		controllerutil.AddFinalizer(pool, g8s.FinalizerSpotPool)
	} else {
		controllerutil.RemoveFinalizer(pool, g8s.FinalizerSpotPool)
	}
	err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && (on || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("writing the finalizer of SpotPool %s: %w", pool.Name, err)
	}
	return nil
}

// writeStatus writes the status of a plan on the SpotPool as it was read, so that a former leader cannot.
func (r *Reconciler) writeStatus(ctx context.Context, pool *g8s.SpotPool, v *view, plan *Plan) error {
	if !v.facts.Answered && !v.facts.Waiting {
		RecordFailure(&plan.Status, v.facts.Failure, v.facts.Now)
		plan.Again = max(min(plan.Again, requeueSoon), plan.Status.RetryAfter.Sub(v.facts.Now))
	}
	r.announceLeaving(pool, plan)
	return r.updateStatus(ctx, pool, plan)
}

func (r *Reconciler) updateStatus(ctx context.Context, pool *g8s.SpotPool, plan *Plan) error {
	if equality.Semantic.DeepEqual(pool.Status, plan.Status) {
		return nil
	}
	pool.Status = *plan.Status.DeepCopy()
	if err := r.Client.Status().Update(ctx, pool); err != nil {
		return fmt.Errorf("writing the status of SpotPool %s: %w", pool.Name, err)
	}
	plan.Status = *pool.Status.DeepCopy() // times as they are kept
	return nil
}

// announceLeaving records an event for each machine that starts leaving.
func (r *Reconciler) announceLeaving(pool *g8s.SpotPool, plan *Plan) {
	for _, m := range plan.Status.Machines {
		i := indexOf(pool.Status.Machines, m.Name)
		if m.Leaving == nil || i >= 0 && pool.Status.Machines[i].Leaving != nil && pool.Status.Machines[i].Leaving.Reason == m.Leaving.Reason {
			continue
		}
		r.Events.Eventf(pool, nil, corev1.EventTypeWarning, eventReplaced, "Replace", "machine %s (%s) is to go: %s", m.Name, m.Instance, m.Leaving.Reason)
	}
	r.announceUnjoined(pool, plan)
}

// announceUnjoined records an event each time machines fail to join.
func (r *Reconciler) announceUnjoined(pool *g8s.SpotPool, plan *Plan) {
	var before int32
	if pool.Status.Joining != nil {
		before = pool.Status.Joining.Failures
	}
	if joining := plan.Status.Joining; joining.Failures > before {
		r.Events.Eventf(pool, nil, corev1.EventTypeWarning, eventNotJoined, "Buy", "%s; the next machine is bought at %s",
			joining.Reason, joining.RetryAfter.UTC().Format(time.RFC3339))
	}
}

// reportRefused writes an event for each node that is left alone, again only when the reason changes.
func (r *Reconciler) reportRefused(pool *g8s.SpotPool, refused []RefusedNode) {
	for _, node := range refused {
		if before, _ := r.reported.Swap(node.Name+"/"+node.Instance, node.Why); before != node.Why {
			r.Events.Eventf(pool, nil, corev1.EventTypeWarning, eventRefused, "Refuse", "node %s is not taken for machine %s: %s", node.Name, node.Instance, node.Why)
		}
	}
}

// buyMachines places several orders at once and records the results.
func (r *Reconciler) buyMachines(ctx context.Context, pool *g8s.SpotPool, cloud Cloud, plan *Plan) error {
	results := make([]Result, len(plan.Launch))
	var group errgroup.Group
	group.SetLimit(buyers)
	for i, order := range plan.Launch {
		group.Go(func() error {
			calling, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			instance, err := cloud.Launch(calling, order)
			if err == nil && instance == "" {
				err = &Error{Kind: Lost}
			}
			results[i] = Result{Order: order, Instance: instance, Err: err, Replayed: plan.Replay[order.Machine]}
			return nil
		})
	}
	_ = group.Wait() // the errors are in results
	RecordResults(&plan.Status, results, r.Clock.Now())
	r.reportResults(pool, results)
	return r.updateStatus(ctx, pool, plan)
}

// reportResults records an event per purchase and per kind of failure.
func (r *Reconciler) reportResults(pool *g8s.SpotPool, results []Result) {
	refused := map[string]int{}
	for _, result := range results {
		if result.Err != nil {
			refused[fmt.Sprintf("%s in %s: %s", result.InstanceType, result.Zone, errorText(result.Err))]++
			continue
		}
		r.Events.Eventf(pool, nil, corev1.EventTypeNormal, eventBought, "Buy", "machine %s is %s, a %s in %s",
			result.Machine, result.Instance, result.InstanceType, result.Zone)
	}
	for why, count := range refused {
		r.Events.Eventf(pool, nil, corev1.EventTypeWarning, eventNotBought, "Buy", "%d machines, %s", count, why)
	}
}

// terminateMachines ends machines. It checks an idle one once more before: a pod may have started there before the node was closed.
func (r *Reconciler) terminateMachines(ctx context.Context, v *view, plan Plan) error {
	var ids []string
	for _, id := range plan.Terminate {
		busy, err := r.isBusy(ctx, plan, id)
		if err != nil {
			return err
		}
		if !busy {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := v.cloud.Terminate(calling, ids); err != nil {
		r.Events.Eventf(v.facts.Pool, nil, corev1.EventTypeWarning, eventNotEnded, "Terminate", "%d machines, which is tried again: %s", len(ids), errorText(err))
		return nil //nolint:nilerr // it is in the plan until the cloud calls them ended
	}
	r.Events.Eventf(v.facts.Pool, nil, corev1.EventTypeNormal, eventTerminated, "Terminate", "%s", strings.Join(ids, ", "))
	return nil
}

// isBusy reports whether a machine that leaves because it is empty has pods after all, according to the API server.
func (r *Reconciler) isBusy(ctx context.Context, plan Plan, id string) (bool, error) {
	for _, m := range plan.Status.Machines {
		if m.Instance != id || m.Leaving == nil || m.Leaving.Reason != g8s.LeavingIdle && m.Leaving.Reason != g8s.LeavingExcess {
			continue
		}
		for _, step := range plan.Nodes {
			if step.Machine != m.Name {
				continue
			}
			pods, err := podsOn(ctx, r.Live, client.MatchingFields{"spec.nodeName": step.Name})
			return len(pods) > 0, err
		}
	}
	return false, nil
}

package gpuquotas

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/pools"
	"g8s.host/gpu-scheduler/pkg/controller/statuses"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Name is the controller's name in logs and metrics.
const Name = "gpuquotas"

const (
	// writesPerSecond limits the status writes of all quotas together.
	writesPerSecond = 2
	fieldOwner      = "gpu-controller-quotas"
	// gathering is how long changes are collected before the quotas of a pool are counted. minInterval is the minimum interval between counts,
	// because each reads the whole pool.
	gathering   = time.Second
	minInterval = 5 * time.Second
	// maxWrites bounds the writes after one count. The others are counted again, because everything may have changed by then.
	maxWrites = 10
)

// Reconciler keeps the status of GPUQuotas. A request names a pool, which may have no quota.
type Reconciler struct {
	client client.Client
	clock  clock.PassiveClock
	writes *rate.Limiter
	// rounds are by pool. There is only one worker.
	rounds map[string]round
}

// round is when the quotas of a pool were last counted, and the last one that was written.
type round struct {
	at   time.Time
	last string
}

// New returns a reconciler.
func New(c client.Client, now clock.PassiveClock) *Reconciler {
	return &Reconciler{client: c, clock: now, writes: rate.NewLimiter(writesPerSecond, 1), rounds: map[string]round{}}
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		Watches(&g8s.GPUQuota{}, enqueueGathered(func(_ context.Context, object client.Object) string { return object.(*g8s.GPUQuota).Spec.Pool }, changedSpec)).
		Watches(&corev1.Node{}, enqueueGathered(func(_ context.Context, object client.Object) string { return gpu.PoolOf(object.(*corev1.Node)) }, changedNode)).
		Watches(&corev1.Pod{}, enqueueGathered(r.poolOfPod, changedPod)).
		Complete(traced.NewReconciler(Name, r))
}

// poolOfPod returns the pool whose GPUs a pod holds or waits for, "" if it requests none. A share of a GPU takes it from those that request whole
// ones.
func (r *Reconciler) poolOfPod(ctx context.Context, object client.Object) string {
	pod := object.(*corev1.Pod)
	if asks, err := gpu.RequestOf(pod); err != nil || asks.IsZero() {
		return ""
	}
	var node corev1.Node
	if pod.Spec.NodeName == "" || r.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node) != nil {
		return gpu.PodPool(pod)
	}
	return gpu.PoolOf(&node)
}

// Relevant changes: neither a node's heartbeat nor the kubelet's container status.
func changedSpec(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration()
}

func changedNode(before, after client.Object) bool {
	old, now := before.(*corev1.Node), after.(*corev1.Node)
	had, has := old.Status.Allocatable[g8s.ResourceGPU], now.Status.Allocatable[g8s.ResourceGPU]
	return gpuquota.PlaceOf(nil, old) != gpuquota.PlaceOf(nil, now) || had.Cmp(has) != 0 || fit.IsOpen(old) != fit.IsOpen(now) ||
		old.Annotations[g8s.AnnotationInventory] != now.Annotations[g8s.AnnotationInventory]
}

func changedPod(before, after client.Object) bool {
	old, now := before.(*corev1.Pod), after.(*corev1.Pod)
	return old.Spec.NodeName != now.Spec.NodeName || old.Status.Phase != now.Status.Phase ||
		(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) || len(old.Spec.SchedulingGates) != len(now.Spec.SchedulingGates)
}

// enqueueGathered enqueues the pool of each changed object, and its previous pool, after a delay that collects changes.
func enqueueGathered(pool func(context.Context, client.Object) string, counts func(before, after client.Object) bool) handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q requests, objects ...client.Object) {
		for _, object := range objects {
			if name := pool(ctx, object); name != "" {
				q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, gathering)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			if counts(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { enqueue(ctx, q, e.Object) },
	}
}

// Reconcile counts the quotas of a pool and writes some changed statuses. The others follow with the next count.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pool := request.Name
	quotas, err := r.quotasOf(ctx, pool)
	if err != nil {
		return ctrl.Result{}, err
	}
	before, now := r.rounds[pool], r.clock.Now()
	switch wait := minInterval - now.Sub(before.at); {
	case len(quotas) == 0:
		delete(r.rounds, pool)
		return ctrl.Result{}, nil
	case !before.at.IsZero() && wait > 0:
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	facts, err := pools.GatherFacts(ctx, r.client, pool)
	if err != nil {
		return ctrl.Result{}, err
	}
	counted := inventory.BuildGPUQuotas(&snapshot.Snapshot{
		GPUQuotas: quotas, Nodes: facts.Nodes, Pods: slices.Concat(facts.Pods, facts.Waiting), Now: now.Truncate(time.Second),
	})
	r.rounds[pool] = round{at: now, last: before.last}
	changes := ChangedStatuses(quotas, counted, before.last)
	for _, change := range changes[:min(len(changes), maxWrites)] {
		if err := r.writes.Wait(ctx); err != nil {
			return ctrl.Result{}, fmt.Errorf("waiting to write the status of GPUQuota %s: %w", change.Name, err)
		}
		if err := r.writeStatus(ctx, &change); err != nil {
			return ctrl.Result{}, err
		}
		r.rounds[pool] = round{at: now, last: change.Name}
	}
	if len(changes) > maxWrites {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{}, nil
}

// quotasOf returns the quotas of a pool, which are not copied and must not be changed.
func (r *Reconciler) quotasOf(ctx context.Context, pool string) ([]g8s.GPUQuota, error) {
	var list g8s.GPUQuotaList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GPUQuotas: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(q g8s.GPUQuota) bool { return q.Spec.Pool != pool }), nil
}

// writeStatus applies a status.
func (r *Reconciler) writeStatus(ctx context.Context, change *Change) error {
	return statuses.Apply(ctx, r.client, statuses.Object{Kind: "GPUQuota", Name: change.Name, Owner: fieldOwner}, &change.Status)
}

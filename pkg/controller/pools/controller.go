package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/statuses"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// Name is the controller's name in logs and metrics, and the owner of the fields that it writes.
const Name = "pools"

const (
	// gathering is how long changes of nodes and pods are collected before the status of their pool is written.
	gathering = time.Second
	// writesPerSecond limits the status writes of all pools together.
	writesPerSecond = 2
	fieldOwner      = "gpu-controller-pools"
)

// The reasons of events on nodes.
const (
	eventNotAdmitted = "NodeNotAdmitted"
	eventAdmitted    = "NodeAdmitted"
)

// Reconciler keeps the status of GPUPools. A request names a pool, which may have no GPUPool.
type Reconciler struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
	writes *rate.Limiter
}

// New returns a reconciler.
func New(c client.Client, recorder events.EventRecorder, now clock.PassiveClock) *Reconciler {
	return &Reconciler{client: c, events: recorder, clock: now, writes: rate.NewLimiter(writesPerSecond, 1)}
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		Watches(&g8s.GPUPool{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.Node{}, enqueueGathered(func(_ context.Context, object client.Object) string { return gpu.PoolOf(object.(*corev1.Node)) })).
		Watches(&corev1.Pod{}, enqueueGathered(r.poolOfPod)).
		Complete(traced.NewReconciler(Name, r))
}

// poolOfPod returns the pool whose GPUs a pod holds or waits for, "" if it requests none.
func (r *Reconciler) poolOfPod(ctx context.Context, object client.Object) string {
	pod := object.(*corev1.Pod)
	if request, err := gpu.RequestOf(pod); err == nil && request.IsZero() {
		return ""
	}
	if pod.Spec.NodeName == "" {
		return gpu.PodPool(pod)
	}
	var node corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil {
		return "" // it is gone, and its deletion enqueued the pool
	}
	return gpu.PoolOf(&node)
}

// enqueueGathered enqueues the pool of each changed object, and its previous pool, after a delay that collects changes.
func enqueueGathered(pool func(context.Context, client.Object) string) handler.EventHandler {
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
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { enqueue(ctx, q, e.Object) },
	}
}

// Reconcile writes the status of a pool if it has changed, and admits its nodes.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pool g8s.GPUPool
	err := r.client.Get(ctx, request.NamespacedName, &pool)
	if apierrors.IsNotFound(err) {
		nodes, err := nodesOf(ctx, r.client, request.Name)
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.admitAll(ctx, nodes, nil) // no constraints apply
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading GPUPool %s: %w", request.Name, err)
	}
	facts, err := GatherFacts(ctx, r.client, pool.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	status, broken := StatusOf(&pool, facts, now)
	if err := r.admitAll(ctx, facts.Nodes, broken); err != nil {
		return ctrl.Result{}, err
	}
	status.Advice = pool.Status.Advice // owned by another controller
	if equality.Semantic.DeepEqual(status, pool.Status) {
		return ctrl.Result{}, nil
	}
	turn := r.writes.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, r.writeStatus(ctx, &pool, status)
}

// nodesOf returns the cached nodes of a pool.
func nodesOf(ctx context.Context, reader client.Reader, pool string) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := reader.List(ctx, &list, index.InPool(pool)); err != nil {
		return nil, fmt.Errorf("listing the nodes of pool %s: %w", pool, err)
	}
	return slices.DeleteFunc(list.Items, func(node corev1.Node) bool { return gpu.PoolOf(&node) != pool }), nil
}

// GatherFacts reads the content of a pool from a cache with the indexes of package index. The pods are not copied and must not be changed.
func GatherFacts(ctx context.Context, reader client.Reader, pool string) (Facts, error) {
	nodes, err := nodesOf(ctx, reader, pool)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Nodes: nodes}
	for i := range nodes {
		var list corev1.PodList
		if err := reader.List(ctx, &list, client.MatchingFields{index.Node: nodes[i].Name}, client.UnsafeDisableDeepCopy); err != nil {
			return Facts{}, fmt.Errorf("listing the pods of node %s: %w", nodes[i].Name, err)
		}
		facts.Pods = append(facts.Pods, list.Items...)
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.MatchingFields{index.WaitingPool: pool}, client.UnsafeDisableDeepCopy); err != nil {
		return Facts{}, fmt.Errorf("listing the pods that wait for pool %s: %w", pool, err)
	}
	facts.Waiting = list.Items
	return facts, nil
}

// writeStatus applies a status without the advice.
func (r *Reconciler) writeStatus(ctx context.Context, pool *g8s.GPUPool, counted g8s.GPUPoolStatus) error {
	counted.Advice = nil
	return statuses.Apply(ctx, r.client, statuses.Object{Kind: "GPUPool", Name: pool.Name, Owner: fieldOwner}, &counted)
}

// admitAll taints nodes that break a constraint, and untaints the others.
func (r *Reconciler) admitAll(ctx context.Context, nodes []corev1.Node, broken map[string][]nodestate.Violation) error {
	var failed []error
	for i := range nodes {
		node := &nodes[i]
		why := broken[node.Name]
		changed := node.DeepCopy()
		if !setAdmitted(changed, len(why) == 0) {
			continue
		}
		patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, changed, patch); err != nil {
			failed = append(failed, fmt.Errorf("admitting node %s: %w", node.Name, err))
			continue
		}
		if len(why) > 0 {
			r.events.Eventf(node, nil, corev1.EventTypeWarning, eventNotAdmitted, "Admit",
				"it gets no new pods of pool %s: %s", gpu.PoolOf(node), nodestate.ViolationTexts(why))
		} else {
			r.events.Eventf(node, nil, corev1.EventTypeNormal, eventAdmitted, "Admit", "it is as pool %s asks", gpu.PoolOf(node))
		}
	}
	return errors.Join(failed...)
}

// setAdmitted sets or removes the taint of a node and reports whether that changed it. The existing taints slice is not modified.
func setAdmitted(node *corev1.Node, admitted bool) bool {
	if admitted != slices.ContainsFunc(node.Spec.Taints, isNotAdmitted) {
		return false
	}
	if admitted {
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), isNotAdmitted)
	} else {
		node.Spec.Taints = append(slices.Clip(node.Spec.Taints), corev1.Taint{Key: g8s.TaintNotAdmitted, Effect: corev1.TaintEffectNoSchedule})
	}
	return true
}

func isNotAdmitted(t corev1.Taint) bool { return t.Key == g8s.TaintNotAdmitted }

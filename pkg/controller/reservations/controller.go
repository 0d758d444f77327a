package reservations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/evictions"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/statuses"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// Name is the controller's name in logs and metrics.
const Name = "reservations"

const (
	// writesPerSecond limits the status writes of all reservations together.
	writesPerSecond = 2
	fieldOwner      = "gpu-controller-reservations"
	// maxEvictions bounds the evictions at a time, so that a large window does not block the API server for others.
	maxEvictions = 50
)

// The reasons of events.
const (
	eventStillThere = "StillThere"
	eventEvicted    = "EvictedForReservation"
)

// Reconciler keeps the status of GPUReservations.
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
		Watches(&g8s.GPUReservation{}, &handler.EnqueueRequestForObject{}).
		Complete(traced.NewReconciler(Name, r))
}

// Reconcile counts the pods in the way of a reservation, writes changed counts, and evicts pods when it is time.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var one g8s.GPUReservation
	if err := r.client.Get(ctx, request.NamespacedName, &one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pods, err := r.podsOn(ctx, &one)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	status, inTheWay := StatusOf(&one, pods, now)
	next := ctrl.Result{RequeueAfter: NextCheck(&one, status, now)}
	if !equality.Semantic.DeepEqual(status, one.Status) {
		turn := r.writes.ReserveN(now, 1)
		if wait := turn.DelayFrom(now); wait > 0 {
			turn.CancelAt(now)
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		if StartsBlocked(one.Status, status) { // before the write: a duplicate event is better than none
			r.events.Eventf(&one, nil, corev1.EventTypeWarning, eventStillThere, "Begin",
				"it has begun, and %d pods on %d nodes are still there that may not be: gpuctl describe reservation %s names them",
				status.InTheWay, status.NodesInTheWay, one.Name)
		}
		if err := r.writeStatus(ctx, one.Name, status); err != nil {
			return ctrl.Result{}, err
		}
	}
	leaving := ToEvict(&one, status, inTheWay)
	return next, r.evictPods(ctx, &one, leaving[:min(maxEvictions, len(leaving))])
}

// podsOn returns the pods on the nodes of a reservation. They are not copied and must not be changed.
func (r *Reconciler) podsOn(ctx context.Context, one *g8s.GPUReservation) ([]corev1.Pod, error) {
	window := reservation.WindowOf(one)
	if window.PhaseAt(r.clock.Now()) == g8s.ReservationOver {
		return nil, nil
	}
	nodes, err := r.nodesOf(ctx, &window)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, node := range nodes {
		var list corev1.PodList
		if err := r.client.List(ctx, &list, client.MatchingFields{index.Node: node}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// nodesOf returns the names of the nodes that a window keeps. A named node may not exist; then it has no pods.
func (r *Reconciler) nodesOf(ctx context.Context, window *reservation.Window) ([]string, error) {
	if window.Pool == "" {
		return window.Nodes, nil
	}
	var list corev1.NodeList
	if err := r.client.List(ctx, &list, index.InPool(window.Pool), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes of pool %s: %w", window.Pool, err)
	}
	var out []string
	for i := range list.Items {
		if window.KeepsNode(&list.Items[i]) {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// writeStatus applies a status.
func (r *Reconciler) writeStatus(ctx context.Context, name string, counted g8s.GPUReservationStatus) error {
	return statuses.Apply(ctx, r.client, statuses.Object{Kind: "GPUReservation", Name: name, Owner: fieldOwner}, &counted)
}

// evictPods requests the eviction of pods within disruption budgets. Pods that a budget keeps are retried.
func (r *Reconciler) evictPods(ctx context.Context, one *g8s.GPUReservation, pods []*corev1.Pod) error {
	var failed []error
	for _, pod := range pods {
		outcome, err := eviction.Evict(ctx, evictions.Client{Client: r.client}, pod)
		switch outcome {
		case eviction.Evicted:
			r.events.Eventf(pod, one, corev1.EventTypeNormal, eventEvicted, "Evict",
				"node %s is kept for others by GPUReservation %s, which has begun", pod.Spec.NodeName, one.Name)
		case eviction.Gone, eviction.OverBudget, eviction.Busy:
		case eviction.Refused:
			failed = append(failed, fmt.Errorf("evicting pod %s/%s for GPUReservation %s: %w", pod.Namespace, pod.Name, one.Name, err))
		}
	}
	return errors.Join(failed...)
}

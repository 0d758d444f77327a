package broken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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
	"g8s.host/gpu-scheduler/pkg/controller/evictions"
	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Name is the controller's name in logs and metrics.
const Name = "broken"

const (
	// requeueSoon is the requeue interval while pods hold broken GPUs: such a pod may crash and fail to restart at any time. requeueLater is the
	// interval while no pod holds the pool's broken GPUs: a pod that was bound just before may still get one.
	requeueSoon  = 5 * time.Second
	requeueLater = 30 * time.Second

	eventNotMoved = "NotMovedFromBrokenGPU"
	action        = "Recover"
)

// Reconciler handles the pods that hold broken GPUs. A request names a pool.
type Reconciler struct {
	Client client.Client
	// Live reads committed state, not the cache.
	Live     client.Reader
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Settings Settings

	// reported is the last message about each pod that stays, so that it is not repeated.
	reported sync.Map // of string by UID
	// seen is when we first saw GPUs whose reported time is missing or invalid, by pool.
	seen sync.Map // of sightings by name
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named(Name).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: gpu.PoolOf(object.(*corev1.Node))}}}
		}), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return gpusChanged(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
			},
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(traced.NewReconciler(Name, r))
}

// gpusChanged reports whether a node's GPU report, pool or readiness changed. Heartbeats must not trigger a reconciliation, which reads all nodes
// of a pool.
func gpusChanged(before, now *corev1.Node) bool {
	for _, name := range []string{g8s.AnnotationInventory, g8s.AnnotationSlices} {
		if before.Annotations[name] != now.Annotations[name] {
			return true
		}
	}
	return gpu.PoolOf(before) != gpu.PoolOf(now) || fit.IsReady(before) != fit.IsReady(now)
}

// Reconcile handles the pods of a pool that hold broken GPUs.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// Package recovery handles nodes that are not ready.
	nodes, err := recovery.NodesOf(ctx, r.Client, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	ages := r.newBreakTimes(request.Name)
	pool := buildPool(nodes, ages)
	nodes = slices.DeleteFunc(nodes, func(node *corev1.Node) bool { return !fit.IsReady(node) || len(gpu.BrokenGPUsOn(node)) == 0 })
	if len(nodes) == 0 {
		return ctrl.Result{}, nil
	}
	holders, leaving, err := r.holdersOn(ctx, nodes, ages)
	if err != nil {
		return ctrl.Result{}, err
	}
	steps, again := Decide(holders, pool, r.Settings, ages.now)
	var failed []error
	for i := range leaving {
		failed = append(failed, r.evictStranded(ctx, &leaving[i]))
	}
	for i := range steps {
		failed = append(failed, r.applyStep(ctx, &steps[i]))
	}
	longest := requeueLater
	if len(holders)+len(leaving) > 0 {
		longest = requeueSoon
	}
	if again == 0 || again > longest {
		again = longest
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(failed...)
}

// holdersOn returns the pods of the nodes that hold broken GPUs, and those already terminating for that reason: a controller that was killed may not
// have evicted the rest of their gangs.
func (r *Reconciler) holdersOn(ctx context.Context, nodes []*corev1.Node, ages *breakTimes) (holders, leaving []Holder, err error) {
	for _, node := range nodes {
		var list corev1.PodList
		if err := r.Client.List(ctx, &list, client.MatchingFields{index.Node: node.Name}); err != nil {
			return nil, nil, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if gpu.HasEnded(pod) || !recovery.IsOurs(pod) {
				continue
			}
			holder := Holder{Pod: pod, Node: node.Name, GPUs: ages.withTimes(node.Name, gpu.BrokenGPUsUnder(node, pod))}
			switch {
			case len(holder.GPUs) == 0:
			case pod.DeletionTimestamp == nil:
				holders = append(holders, holder)
			case holder.mustLeave(r.Settings.After, ages.now):
				leaving = append(leaving, holder)
			}
		}
	}
	return holders, leaving, nil
}

// applyStep evicts a pod, and then the members of its gang that cannot continue without it.
func (r *Reconciler) applyStep(ctx context.Context, step *Step) error {
	if step.Held != "" {
		r.reportOnce(step.Pod, fmt.Sprintf("%s, and it stays: %s", step.Why, step.Held))
		return nil
	}
	if !r.evictPod(ctx, step.Pod, step.Why).IsLeaving() {
		return nil
	}
	// The cache gets the deletion later.
	step.Pod.DeletionTimestamp = ptr.To(metav1.NewTime(r.Clock.Now()))
	return r.evictStranded(ctx, step.Holder)
}

// evictStranded evicts the gang members that cannot continue without a terminating pod, except for those created since.
func (r *Reconciler) evictStranded(ctx context.Context, holder *Holder) error {
	gang, err := (&gangs.Reader{Cache: r.Client, Live: r.Live}).GangOf(ctx, holder.Pod)
	if err != nil {
		return err
	}
	for _, member := range gang.Members {
		if member.UID == holder.Pod.UID {
			member.DeletionTimestamp = holder.Pod.DeletionTimestamp
		}
	}
	why := fmt.Sprintf("member %s of its gang leaves node %s, where %s: the gang starts again as a whole", holder.Pod.Name, holder.Node, describeGPUs(holder.GPUs))
	for _, member := range recovery.StrandedMembers(gang.Members, nil, gang.Least) {
		if !recovery.IsNewer(member, holder.Pod) {
			r.evictPod(ctx, member, why)
		}
	}
	return nil
}

// evictPod requests the eviction of a pod. A refused eviction is retried and does not block other pods: users can write budgets that allow no eviction.
func (r *Reconciler) evictPod(ctx context.Context, pod *corev1.Pod, why string) eviction.Outcome {
	outcome, err := eviction.Evict(ctx, evictions.Client{Client: r.Client}, pod)
	if err != nil {
		r.reportOnce(pod, fmt.Sprintf("%s, and it stays: %v", why, err))
	}
	if outcome != eviction.Evicted {
		return outcome
	}
	moved.Inc()
	r.reported.Delete(pod.UID)
	ctrl.LoggerFrom(ctx).V(2).Info("Had a pod leave broken cards", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName, "why", why)
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, g8s.EventMovedFromBrokenGPU, action, "%s: it is ended, and starts again elsewhere", why)
	return outcome
}

// reportOnce records an event about a pod that stays, once per message.
func (r *Reconciler) reportOnce(pod *corev1.Pod, text string) {
	if before, _ := r.reported.Swap(pod.UID, text); before != text {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, eventNotMoved, action, "%s", text)
	}
}

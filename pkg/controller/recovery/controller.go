package recovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Name is the controller's name in logs and metrics.
const Name = "recovery"

const (
	// workers bounds the pools reconciled at once.
	workers = 4
	// confirmAgain is the requeue interval for a node that gave a sign of life just before it was declared dead.
	confirmAgain = time.Second
)

// Reconciler handles the nodes of pools. A request names a pool.
type Reconciler struct {
	Client client.Client
	// Live reads committed state, not the cache.
	Live     client.Reader
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Signs    *Signs
	Settings Settings

	// reported is the last message about each node that is not declared dead, so that it is not repeated.
	reported sync.Map // of string by node
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	if err := m.Add(leaseWatcher{signs: r.Signs, manager: m}); err != nil {
		return fmt.Errorf("following the leases of nodes: %w", err)
	}
	return ctrl.NewControllerManagedBy(m).Named(Name).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			return poolOf(object.(*corev1.Node))
		})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.poolOfPod), builder.WithPredicates(predicate.NewPredicateFuncs(isStuck))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(traced.NewReconciler(Name, r))
}

// poolOfPod returns the pool of a pod's node, if we have declared that node dead.
func (r *Reconciler) poolOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: pod.(*corev1.Pod).Spec.NodeName}, &node); err != nil || !hasTaint(&node, isOutOfServiceByUs) {
		return nil
	}
	return poolOf(&node)
}

func poolOf(node *corev1.Node) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: gpu.PoolOf(node)}}}
}

// leaseWatcher watches leases on every replica: a standby must know them when it becomes the leader.
type leaseWatcher struct {
	signs   *Signs
	manager ctrl.Manager
}

var _ manager.LeaderElectionRunnable = leaseWatcher{}

func (leaseWatcher) NeedLeaderElection() bool { return false }

func (f leaseWatcher) Start(ctx context.Context) error {
	return f.signs.WatchLeases(ctx, f.manager.GetCache())
}

// Reconcile decides about the nodes of a pool with cached state. Before it declares a node dead, it decides again with committed state.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	steps, nodes, again, err := r.decidePool(ctx, r.Client, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(declaredNodes(steps)) > 0 {
		if steps, nodes, again, err = r.decidePool(ctx, r.Live, request.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	var failed []error
	dead := declaredNodes(steps)
	for _, step := range steps {
		failed = append(failed, r.carryOutStep(ctx, nodes[step.Node], step, dead))
	}
	for _, node := range nodes {
		failed = append(failed, r.endPods(ctx, node))
	}
	err = errors.Join(failed...)
	if errors.Is(err, errSignOfLife) || errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: confirmAgain}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// declaredNodes returns the nodes that the steps declare dead.
func declaredNodes(steps []Step) []string {
	var out []string
	for _, step := range steps {
		if step.Declare {
			out = append(out, step.Node)
		}
	}
	return out
}

// decidePool reads the nodes of a pool and decides about those with valid records.
func (r *Reconciler) decidePool(ctx context.Context, reader client.Reader, pool string) ([]Step, map[string]*corev1.Node, time.Duration, error) {
	nodes, err := NodesOf(ctx, reader, pool)
	if err != nil {
		return nil, nil, 0, err
	}
	byName := make(map[string]*corev1.Node, len(nodes))
	var all []Node
	for _, node := range nodes {
		facts, err := r.factsOf(ctx, node)
		if err != nil {
			r.reportOnce(node, corev1.EventTypeWarning, eventUnreadable, err.Error()+": it is left alone until that is mended or removed")
			continue
		}
		byName[node.Name] = node
		all = append(all, facts)
	}
	steps, again := Decide(all, r.Settings, r.Clock.Now())
	return steps, byName, again, nil
}

// Package agents detects that a node's gpu-agent has gone silent: its last report is outdated, and nothing checks the GPUs. The agent renews its
// conditions every 5 minutes. If it does not, they become Unknown, as Kubernetes does with those of a kubelet. A returning agent reports at once.
package agents

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
)

// Name is the controller's name in logs and metrics.
const Name = "agents"

// silentAfter is how long an agent may be silent before its report becomes Unknown: three heartbeats and a margin.
const silentAfter = 16 * time.Minute

const eventSilent = "GPUAgentSilent"

// Reconciler checks the conditions of nodes. A request names a node.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock

	mu sync.Mutex
	// heartbeats is the last heartbeat of each node, and when we first saw it by our own clock: the node's clock may be wrong. A new leader counts from
	// its start.
	heartbeats map[string]heartbeat
}

type heartbeat struct {
	beat metav1.Time
	seen time.Time
}

// SetUp adds the controller to a manager.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named(Name).For(&corev1.Node{}).Complete(traced.NewReconciler(Name, r))
}

// Reconcile records a heartbeat or handles its absence.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, request.NamespacedName, &node); err != nil {
		if apierrors.IsNotFound(err) {
			r.forgetNode(request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := condition.OfNode(&node, g8s.ConditionAgentReady)
	if ready == nil || ready.Status == corev1.ConditionUnknown || ready.Reason == g8s.ReasonNoAgent || ready.Reason == g8s.ReasonPaused {
		r.forgetNode(node.Name)
		return ctrl.Result{}, nil
	}
	if left := silentAfter - r.silentFor(node.Name, ready.LastHeartbeatTime); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, r.markUnknown(ctx, &node)
}

// silentFor returns how long a node's agent has sent no heartbeat after this one.
func (r *Reconciler) silentFor(node string, beat metav1.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if r.heartbeats == nil {
		r.heartbeats = map[string]heartbeat{}
	}
	if last, known := r.heartbeats[node]; !known || !last.beat.Equal(&beat) {
		r.heartbeats[node] = heartbeat{beat: beat, seen: now}
	}
	return now.Sub(r.heartbeats[node].seen)
}

func (r *Reconciler) forgetNode(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.heartbeats, node)
}

// markUnknown marks the state of a node's GPUs as unknown. A heartbeat in the meantime makes the write fail.
func (r *Reconciler) markUnknown(ctx context.Context, node *corev1.Node) error {
	changed := node.DeepCopy()
	for _, kind := range []corev1.NodeConditionType{g8s.ConditionAgentReady, g8s.ConditionGPUsHealthy} {
		condition := condition.OfNode(changed, kind)
		if condition == nil {
			continue
		}
		condition.Status, condition.Reason = corev1.ConditionUnknown, g8s.ReasonAgentSilent
		condition.Message = fmt.Sprintf("gpu-agent has not been heard of for %s", silentAfter)
		condition.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	}
	patch := client.StrategicMergeFrom(node, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // its change triggers another reconciliation
		}
		return fmt.Errorf("saying that the agent of node %s is silent: %w", node.Name, err)
	}
	r.forgetNode(node.Name)
	r.Events.Eventf(node, nil, corev1.EventTypeWarning, eventSilent, "Doubt",
		"gpu-agent has not been heard of for %s: nobody looks at the cards of this node", silentAfter)
	return nil
}

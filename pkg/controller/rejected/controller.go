// Package rejected handles pods that a node's kubelet has rejected for their GPUs, for good. kubelet does so while no device plugin serves it, and the
// scheduler goes by what the node last offered: a node whose gpu-agent has ended would take pod after pod until kubelet's next status.
//
// Such a node is marked, so that it gets no pods with GPUs until its agent says that it serves. The pod counts as disrupted, which costs its job no
// retry. The Job controller processes a Job one second after an event of its pods, so there is time to be first, as in package replace.
package rejected

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/controller/replace"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
)

// Name is the controller's name in logs and metrics.
const Name = "rejected"

const (
	// workers bounds the pods handled at once: a gang of hundreds may meet nodes that have just restarted.
	workers = 16
	// recent is how long after it was given its node a pod's rejection says something about that node. A new leader sees older ones.
	recent        = time.Minute
	eventRejected = "GPUPodRejected"
)

// Reconciler handles rejected pods. A request names a pod.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// SetUp adds the controller to a manager.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named(Name).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(isOfInterest))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(traced.NewReconciler(Name, r))
}

func isOfInterest(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && isRejected(pod)
}

// Reconcile marks the node before the pod: the next pod of the job is made at once.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.Client.Get(ctx, request.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isRejected(&pod) {
		return ctrl.Result{}, nil
	}
	if isRecent(&pod, r.Clock.Now()) {
		if err := r.closeNode(ctx, &pod); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.markDisrupted(ctx, &pod)
}

// isRecent reports whether a pod was given its node so lately that its rejection says something about the node now.
func isRecent(pod *corev1.Pod, now time.Time) bool {
	if bound := condition.TrueOfPod(pod, corev1.PodScheduled); bound != nil {
		return now.Sub(bound.LastTransitionTime.Time) < recent
	}
	return now.Sub(pod.CreationTimestamp.Time) < recent
}

// closeNode marks the node of a pod whose agent says that it serves. The agent overwrites it when it does.
func (r *Reconciler) closeNode(ctx context.Context, pod *corev1.Pod) error {
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	changed := node.DeepCopy()
	ready := condition.OfNode(changed, g8s.ConditionAgentReady)
	if ready == nil || ready.Status != corev1.ConditionTrue {
		return nil
	}
	ready.Status, ready.Reason, ready.LastTransitionTime = corev1.ConditionFalse, g8s.ReasonPodRejected, metav1.NewTime(r.Clock.Now())
	ready.Message = fmt.Sprintf("kubelet has rejected pod %s/%s for its GPUs, and nothing was heard of gpu-agent since: %s", pod.Namespace, pod.Name, pod.Status.Message)
	if err := r.Client.Status().Patch(ctx, changed, client.StrategicMergeFrom(&node)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("saying that node %s rejects pods: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).V(2).Info("A node rejects pods with GPUs", "node", node.Name, "pod", pod.Name)
	r.Events.Eventf(&node, pod, corev1.EventTypeWarning, eventRejected, "Close",
		"kubelet has rejected pod %s/%s for its GPUs: no pod with GPUs is placed here until gpu-agent says that it serves", pod.Namespace, pod.Name)
	return nil
}

// markDisrupted says of a Job's pod that it was disrupted, before the Job controller has counted it.
func (r *Reconciler) markDisrupted(ctx context.Context, pod *corev1.Pod) error {
	if !replace.HasFinalizer(pod) || condition.TrueOfPod(pod, corev1.DisruptionTarget) != nil {
		return nil
	}
	changed := pod.DeepCopy()
	disrupted := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: g8s.ReasonRejectedByKubelet, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		Message: fmt.Sprintf("kubelet of node %s has rejected it for its GPUs: no device plugin serves it", pod.Spec.NodeName),
	}
	if before := condition.OfPod(changed, corev1.DisruptionTarget); before != nil {
		*before = disrupted // Kubernetes writes that it is not true when nothing has come of it
	} else {
		changed.Status.Conditions = append(changed.Status.Conditions, disrupted)
	}
	switch err := r.Client.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod)); {
	case apierrors.IsNotFound(err):
		return nil // there is nothing left to count
	case err != nil:
		return fmt.Errorf("saying that pod %s was disrupted: %w", pod.Name, err)
	}
	rejections.Inc()
	return nil
}

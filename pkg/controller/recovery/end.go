package recovery

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// endPods sets terminating pods to Failed on a node that we have declared dead. Kubernetes' pod garbage collector does the same, on the same
// conditions (kubernetes v1.37, pkg/controller/podgc/gc_controller.go, gcTerminating), and then deletes them; but it runs only every 20 s.
func (r *Reconciler) endPods(ctx context.Context, node *corev1.Node) error {
	if !hasTaint(node, isOutOfServiceByUs) || condition.IsNodeTrue(node, corev1.NodeReady) {
		return nil
	}
	pods, err := r.podsOn(ctx, node.Name)
	if err != nil {
		return err
	}
	var failed []error
	for _, pod := range pods {
		if !isStuck(pod) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, corev1.PodFailed)
		err := r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("ending pod %s/%s of node %s: %w", pod.Namespace, pod.Name, node.Name, err))
		}
	}
	return errors.Join(failed...)
}

// isStuck reports whether a pod is terminating because of its node, and its Job waits for its end.
func isStuck(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && !gpu.HasEnded(pod) && IsOurs(pod) &&
		controllerutil.ContainsFinalizer(pod, batchv1.JobTrackingFinalizer) && condition.TrueOfPod(pod, corev1.DisruptionTarget) != nil
}

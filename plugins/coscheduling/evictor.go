package coscheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/conflict"
)

// evictor writes to the API server what was decided about pods: evictions, notices and nominations.
type evictor struct {
	handle     fwk.Handle
	now        func() time.Time
	departures *departures
	// plugin is the name of the plugin that lets pods wait in Permit. countEviction counts an eviction by its metric label.
	plugin        string
	countEviction func(label string)
}

// maxConcurrentWrites is how many requests of one gang run concurrently.
const maxConcurrentWrites = 8

// dryRunEvictions dry-runs the eviction of all pods before any is evicted: evicting some pods for a gang that another pod keeps out would be in vain.
// Pods whose eviction the API server refuses are spared for a while.
func (e evictor) dryRunEvictions(ctx context.Context, victims []*corev1.Pod, isRefusal func(error) bool) error {
	var mu sync.Mutex
	var first error
	_ = forEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if err := e.dryRunEviction(ctx, victim, isRefusal); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		}
		return nil // the remaining pods are still checked
	})
	return first
}

// dryRunEviction dry-runs the eviction of a pod. An admission webhook that does not support dry runs does not count as a refusal.
func (e evictor) dryRunEviction(ctx context.Context, victim *corev1.Pod, isRefusal func(error) bool) error {
	if e.handle.GetWaitingPod(victim.UID) != nil {
		return nil
	}
	err := e.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(victim.UID)), DryRun: []string{metav1.DryRunAll},
	})
	if err == nil || !isDenial(err) && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)) {
		return nil
	}
	e.recordEvictionRefusal(victim, isRefusal(err))
	return fmt.Errorf("asking whether pod %s may be evicted: %w", klog.KObj(victim), err)
}

// recordEvictionRefusal spares a pod for a while if the API server refuses its eviction.
func (e evictor) recordEvictionRefusal(victim *corev1.Pod, refused bool) {
	if refused {
		e.departures.recordRefusal(victim.UID, e.now())
	}
}

// isRefusal reports whether the API server refused for good, and was not merely unreachable or busy. A webhook that does not answer is an
// internal error.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// isDenial reports whether an admission webhook denied the request. The webhook chooses the status, so its type says nothing. The text is the
// API server's own (ToStatusErr in pkg/admission/plugin/webhook/errors of k8s.io/apiserver).
func isDenial(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	text := status.Status().Message
	return strings.HasPrefix(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// errUnwanted says that the gang changed while its preemption was under way.
var errUnwanted = errors.New("a member of the gang is gone, or has a place, meanwhile")

// evictAll evicts pods as long as that is wanted. It returns the pods that were evicted, or may have been.
func (e evictor) evictAll(ctx context.Context, victims []*corev1.Pod, why evictionReason, isRefusal func(error) bool, wanted func() bool) (sets.Set[types.UID], error) {
	var mu sync.Mutex
	gone := sets.New[types.UID]()
	err := forEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !wanted() {
			return errUnwanted
		}
		err := e.evictPod(ctx, victim, why)
		refused := isRefusal(err)
		if e.recordEvictionRefusal(victim, refused); !refused {
			mu.Lock()
			defer mu.Unlock()
			gone.Insert(victim.UID)
		}
		return err
	})
	return gone, err
}

// forEachPod writes each pod, several at once, until the first failure.
func forEachPod(ctx context.Context, pods []*corev1.Pod, write func(context.Context, *corev1.Pod) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentWrites)
	for _, pod := range pods {
		group.Go(func() error { return write(ctx, pod) })
	}
	return group.Wait() //nolint:wrapcheck // it is one of ours
}

// writeNomination sets the nominated node of a pod, "" for none.
func (e evictor) writeNomination(ctx context.Context, pod *corev1.Pod, node string) error {
	if pod.Status.NominatedNodeName == node {
		return nil
	}
	status := map[string]any{"nominatedNodeName": nil}
	if node != "" {
		status["nominatedNodeName"] = node
	}
	return e.patchStatus(ctx, pod, types.MergePatchType, status)
}

// evictPod deletes a pod the way kube-scheduler's own preemption does: it writes the reason, and rejects a pod that waits in Permit.
func (e evictor) evictPod(ctx context.Context, victim *corev1.Pod, why evictionReason) error {
	if waits := e.handle.GetWaitingPod(victim.UID); waits != nil {
		waits.Reject(e.plugin, "preempted")
		e.countEviction(why.metricLabel)
		return nil
	}
	if err := e.writeEvictionReason(ctx, victim, why); err != nil {
		return err
	}
	pods := e.handle.ClientSet().CoreV1().Pods(victim.Namespace)
	err := conflict.Retry(retry.DefaultRetry, func() error {
		return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	})
	if err != nil && !e.isGone(ctx, victim, err) {
		return fmt.Errorf("evicting pod %s: %w", klog.KObj(victim), err)
	}
	if err == nil {
		e.countEviction(why.metricLabel)
	}
	e.recordEviction(victim, why)
	return nil
}

// patchStatus patches the status of a pod, unless the pod is gone or replaced by another of its name.
func (e evictor) patchStatus(ctx context.Context, pod *corev1.Pod, kind types.PatchType, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", klog.KObj(pod), err)
	}
	pods := e.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	err = conflict.Retry(retry.DefaultRetry, func() error {
		_, err := pods.Patch(ctx, pod.Name, kind, patch, metav1.PatchOptions{}, "status")
		return err //nolint:wrapcheck // it is told apart by its kind
	})
	if err != nil && !e.isGone(ctx, pod, err) {
		return fmt.Errorf("changing the status of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// isGone reports whether a write failed because the pod is gone, or another pod has its name. The API server returns Conflict for that, and also
// for concurrent writes to the pod.
func (e evictor) isGone(ctx context.Context, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	there, err := e.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && there.UID != pod.UID
}

// setAnnotation sets an annotation of a pod, nil removes it. It patches the status subresource, the only part of a pod that the scheduler may patch.
func (e evictor) setAnnotation(ctx context.Context, pod *corev1.Pod, name string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]any{name: value}}})
	if err != nil {
		return fmt.Errorf("writing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	_, err = e.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !e.isGone(ctx, pod, err) {
		return fmt.Errorf("changing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

package preemption

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

// Evictor writes to the API server what was decided about pods: evictions, notices and nominations.
type Evictor struct {
	Handle     fwk.Handle
	Now        func() time.Time
	Departures *Departures
	// Plugin is the name of the plugin that lets pods wait in Permit. CountEviction counts an eviction by its metric label.
	Plugin        string
	CountEviction func(label string)
}

// maxConcurrentWrites is how many requests of one gang run concurrently.
const maxConcurrentWrites = 8

// DryRunEvictions dry-runs the eviction of all pods before any is evicted: evicting some pods for a gang that another pod keeps out would be in vain.
// Pods whose eviction the API server refuses are spared for a while.
func (e Evictor) DryRunEvictions(ctx context.Context, victims []*corev1.Pod, isRefusal func(error) bool) error {
	var mu sync.Mutex
	var first error
	_ = ForEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
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
func (e Evictor) dryRunEviction(ctx context.Context, victim *corev1.Pod, isRefusal func(error) bool) error {
	if e.Handle.GetWaitingPod(victim.UID) != nil {
		return nil
	}
	err := e.Handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(victim.UID)), DryRun: []string{metav1.DryRunAll},
	})
	if err == nil || !IsDenial(err) && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)) {
		return nil
	}
	e.recordEvictionRefusal(victim, isRefusal(err))
	return fmt.Errorf("asking whether pod %s may be evicted: %w", klog.KObj(victim), err)
}

// recordEvictionRefusal spares a pod for a while if the API server refuses its eviction.
func (e Evictor) recordEvictionRefusal(victim *corev1.Pod, refused bool) {
	if refused {
		e.Departures.RecordRefusal(victim.UID, e.Now())
	}
}

// IsRefusal reports whether the API server refused for good, and was not merely unreachable or busy. A webhook that does not answer is an
// internal error.
func IsRefusal(err error) bool {
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

// IsDenial reports whether an admission webhook denied the request. The webhook chooses the status, so its type says nothing. The text is the
// API server's own (ToStatusErr in pkg/admission/plugin/webhook/errors of k8s.io/apiserver).
func IsDenial(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	text := status.Status().Message
	return strings.HasPrefix(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// ErrUnwanted says that the gang changed while its preemption was under way.
var ErrUnwanted = errors.New("a member of the gang is gone, or has a place, meanwhile")

// EvictAll evicts pods as long as that is wanted. It returns the pods that were evicted, or may have been.
func (e Evictor) EvictAll(ctx context.Context, victims []*corev1.Pod, why EvictionReason, isRefusal func(error) bool, wanted func() bool) (sets.Set[types.UID], error) {
	var mu sync.Mutex
	gone := sets.New[types.UID]()
	err := ForEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !wanted() {
			return ErrUnwanted
		}
		err := e.EvictPod(ctx, victim, why)
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

// ForEachPod writes each pod, several at once, until the first failure.
func ForEachPod(ctx context.Context, pods []*corev1.Pod, write func(context.Context, *corev1.Pod) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentWrites)
	for _, pod := range pods {
		group.Go(func() error { return write(ctx, pod) })
	}
	return group.Wait() //nolint:wrapcheck // it is one of ours
}

// WriteNomination sets the nominated node of a pod, "" for none.
func (e Evictor) WriteNomination(ctx context.Context, pod *corev1.Pod, node string) error {
	if pod.Status.NominatedNodeName == node {
		return nil
	}
	status := map[string]any{"nominatedNodeName": nil}
	if node != "" {
		status["nominatedNodeName"] = node
	}
	return e.PatchStatus(ctx, pod, types.MergePatchType, status)
}

// EvictPod deletes a pod the way kube-scheduler's own preemption does: it writes the reason, and rejects a pod that waits in Permit.
func (e Evictor) EvictPod(ctx context.Context, victim *corev1.Pod, why EvictionReason) error {
	if waits := e.Handle.GetWaitingPod(victim.UID); waits != nil {
		waits.Reject(e.Plugin, "preempted")
		e.CountEviction(why.MetricLabel)
		return nil
	}
	if err := e.WriteEvictionReason(ctx, victim, why); err != nil {
		return err
	}
	pods := e.Handle.ClientSet().CoreV1().Pods(victim.Namespace)
	err := conflict.Retry(retry.DefaultRetry, func() error {
		return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	})
	if err != nil && !e.isGone(ctx, victim, err) {
		return fmt.Errorf("evicting pod %s: %w", klog.KObj(victim), err)
	}
	if err == nil {
		e.CountEviction(why.MetricLabel)
	}
	e.recordEviction(victim, why)
	return nil
}

// PatchStatus patches the status of a pod, unless the pod is gone or replaced by another of its name.
func (e Evictor) PatchStatus(ctx context.Context, pod *corev1.Pod, kind types.PatchType, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", klog.KObj(pod), err)
	}
	pods := e.Handle.ClientSet().CoreV1().Pods(pod.Namespace)
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
func (e Evictor) isGone(ctx context.Context, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	there, err := e.Handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && there.UID != pod.UID
}

// SetAnnotation sets an annotation of a pod, nil removes it. It patches the status subresource, the only part of a pod that the scheduler may patch.
func (e Evictor) SetAnnotation(ctx context.Context, pod *corev1.Pod, name string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]any{name: value}}})
	if err != nil {
		return fmt.Errorf("writing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	_, err = e.Handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !e.isGone(ctx, pod, err) {
		return fmt.Errorf("changing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

package gpudevices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// requestTimeout is the maximum duration of a request: the API server's own --request-timeout, 1 min unless it is set.
	requestTimeout = time.Minute
	// retryWindow is how long a Binding with an unknown result is posted again.
	retryWindow = time.Minute
	// readTimeout bounds a read of the pod, which has no side effects and can be repeated at once.
	readTimeout = 5 * time.Second

	firstRetry, maxRetry = 50 * time.Millisecond, 2 * time.Second
)

// bindResult is the known result of a posted Binding.
type bindResult int

const (
	// resultBound: the pod is bound as asked.
	resultBound bindResult = iota
	// resultRefused: this request has bound nothing, and will not.
	resultRefused
	// resultUnknown: it may be stored, now or in a moment. Releasing the GPUs could assign them twice.
	resultUnknown
)

// readResult interprets the response to a POST. A conflict, or a missing pod, only says that the pod is not free to be bound: whether an earlier
// request of ours bound it must be read. A server error, a timeout and a broken connection leave the result open, with one exception: admission
// comes before anything is stored.
func readResult(err error) bindResult {
	if err == nil {
		return resultBound
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return resultUnknown
	}
	if message := status.Status().Message; isWebhookDenial(message) || isWebhookFailure(message) {
		return resultRefused
	}
	switch code := status.Status().Code; {
	case code == http.StatusNotFound, code == http.StatusConflict, code == http.StatusRequestTimeout:
		return resultUnknown
	case code >= 400 && code < 500:
		return resultRefused
	}
	return resultUnknown
}

// isWebhookDenial recognizes responses of an API server whose admission webhooks denied a request, with a status of their own choice. The type says
// no more, and the text is the API server's own (k8s.io/apiserver: ToStatusErr in pkg/admission/plugin/webhook/errors).
func isWebhookDenial(message string) bool {
	return strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// isWebhookFailure recognizes responses of an API server that could not call a webhook, which are an InternalError (ErrCallingWebhook in
// pkg/util/webhook).
func isWebhookFailure(message string) bool {
	return strings.HasPrefix(message, "Internal error occurred: failed calling webhook ")
}

// bindPod binds a pod, or returns an error if it is certain that the pod was not bound. The only other way to end is the end of ctx, and with it of
// the leadership: the fence refuses what is bound in its name after that.
func (p *Plugin) bindPod(ctx context.Context, binding *corev1.Binding) error {
	end := p.Gate.BeginBinding()
	err := p.postBinding(ctx, binding)
	end() // an unknown result must not block other bindings
	switch readResult(err) {
	case resultBound:
		return nil
	case resultRefused:
		refusals.WithLabelValues(refusedBy(err)).Inc()
		return err
	}
	unanswered.Inc()
	defer unanswered.Dec()
	return p.confirmBinding(ctx, binding, err)
}

// confirmBinding determines the result of an unanswered Binding, and posts it again, until the result is certain. The Binding contains the UID of the
// pod, so posting it twice binds once. After a refusal, or while the pod is unbound, an earlier request may still be in flight. That is excluded
// once all of them have had the time that the API server allows for one.
func (p *Plugin) confirmBinding(ctx context.Context, binding *corev1.Binding, err error) error {
	klog.FromContext(ctx).Info("Nobody told whether the pod is bound, asking again; its cards stay taken",
		"pod", klog.KRef(binding.Namespace, binding.Name), "node", binding.Target.Name, "err", err)
	first := time.Now()
	last := first // end of the last request that may still be in flight
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		now := time.Now() // before the read, which says nothing about later changes
		switch state := p.readBindState(ctx, binding); {
		case state == stateBound:
			return nil
		case state == stateNeverBound, state == statePending && now.Sub(last) >= requestTimeout:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("asking what became of a binding: %w, after: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
		if now.Sub(first) >= retryWindow {
			continue
		}
		err = p.postBinding(ctx, binding)
		switch readResult(err) {
		case resultBound:
			return nil
		case resultUnknown:
			last = time.Now()
		}
	}
}

// bindState is the state of a pod to be bound, as seen in the API server.
type bindState int

const (
	stateUnknown    bindState = iota // no response
	statePending                     // the pod is not bound
	stateBound                       // it has the node, the cards and the epoch of the Binding
	stateNeverBound                  // it is gone, terminating, or bound otherwise: no request of ours can bind it any more
)

// readBindState reads the state of a pod.
func (p *Plugin) readBindState(ctx context.Context, binding *corev1.Binding) bindState {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return stateNeverBound
	case err != nil:
		return stateUnknown
	case pod.UID == binding.UID && pod.Spec.NodeName == binding.Target.Name &&
		pod.Annotations[names.AnnotationGPUDevices] == binding.Annotations[names.AnnotationGPUDevices] &&
		pod.Annotations[names.AnnotationEpoch] == binding.Annotations[names.AnnotationEpoch]:
		return stateBound
	case pod.UID != binding.UID, pod.Spec.NodeName != "", pod.DeletionTimestamp != nil:
		return stateNeverBound
	}
	return statePending
}

// postBinding sends the Binding, through the scheduler's queue of API calls if it has one.
func (p *Plugin) postBinding(ctx context.Context, binding *corev1.Binding) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cacher := p.handle.APICacher()
	if cacher == nil {
		return p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	done, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, done)
}

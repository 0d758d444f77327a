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
	// answerWithin is the maximum duration of a request: the API server's own --request-timeout, 1 min unless it is set.
	answerWithin = time.Minute
	// insistFor is how long a Binding with an unknown result is posted again.
	insistFor = time.Minute
	// readWithin bounds a read of the pod, which has no side effects and can be repeated at once.
	readWithin = 5 * time.Second

	firstRetry, longestRetry = 50 * time.Millisecond, 2 * time.Second
)

// answer is the known result of a posted Binding.
type answer int

const (
	// bound: the pod is bound as asked.
	bound answer = iota
	// refused: this request has bound nothing, and will not.
	refused
	// unknown: it may be stored, now or in a moment. Releasing the GPUs could assign them twice.
	unknown
)

// answerOf interprets the response to a POST. A conflict, or a missing pod, only says that the pod is not free to be bound: whether an earlier
// request of ours bound it must be read. A server error, a timeout and a broken connection leave the result open, with one exception: admission
// comes before anything is stored.
func answerOf(err error) answer {
	if err == nil {
		return bound
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return unknown
	}
	if notAdmitted(status.Status().Message) {
		return refused
	}
	switch code := status.Status().Code; {
	case code == http.StatusNotFound, code == http.StatusConflict, code == http.StatusRequestTimeout:
		return unknown
	case code >= 400 && code < 500:
		return refused
	}
	return unknown
}

// notAdmitted recognizes responses of an API server whose admission webhooks denied a request, with a status of their own choice, or could not
// be called, which is an InternalError. The type says no more, and the text is the API server's own (k8s.io/apiserver: ErrCallingWebhook in
// pkg/util/webhook, ToStatusErr in pkg/admission/plugin/webhook/errors).
func notAdmitted(message string) bool {
	return strings.HasPrefix(message, "Internal error occurred: failed calling webhook ") ||
		strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// bind binds a pod, or returns an error if it is certain that the pod was not bound. The only other way to end is the end of ctx, and with it of
// the leadership: the fence refuses what is bound in its name after that.
func (p *Plugin) bind(ctx context.Context, binding *corev1.Binding) error {
	end := p.Gate.Begin()
	err := p.post(ctx, binding)
	end() // an unknown result must not block other bindings
	switch answerOf(err) {
	case bound:
		return nil
	case refused:
		refusals.WithLabelValues(refusedBy(err)).Inc()
		return err
	}
	unanswered.Inc()
	defer unanswered.Dec()
	return p.insist(ctx, binding, err)
}

// insist determines the result of an unanswered Binding, and posts it again, until the result is certain. The Binding contains the UID of the
// pod, so posting it twice binds once. After a refusal, or while the pod is unbound, an earlier request may still be in flight. That is excluded
// once all of them have had the time that the API server allows for one.
func (p *Plugin) insist(ctx context.Context, binding *corev1.Binding, err error) error {
	klog.FromContext(ctx).Info("Nobody told whether the pod is bound, asking again; its cards stay taken",
		"pod", klog.KRef(binding.Namespace, binding.Name), "node", binding.Target.Name, "err", err)
	first := time.Now()
	last := first // end of the last request that may still be in flight
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		now := time.Now() // before the read, which says nothing about later changes
		switch state := p.look(ctx, binding); {
		case state == boundAsAsked:
			return nil
		case state == neverBound, state == unbound && now.Sub(last) >= answerWithin:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("asking what became of a binding: %w, after: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
		if now.Sub(first) >= insistFor {
			continue
		}
		err = p.post(ctx, binding)
		switch answerOf(err) {
		case bound:
			return nil
		case unknown:
			last = time.Now()
		}
	}
}

// sight is the state of a pod to be bound, as seen in the API server.
type sight int

const (
	unseen       sight = iota // no response
	unbound                   // the pod is not bound
	boundAsAsked              // it has the node, the cards and the epoch of the Binding
	neverBound                // it is gone, terminating, or bound otherwise: no request of ours can bind it any more
)

// look reads the state of a pod.
func (p *Plugin) look(ctx context.Context, binding *corev1.Binding) sight {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return neverBound
	case err != nil:
		return unseen
	case pod.UID == binding.UID && pod.Spec.NodeName == binding.Target.Name &&
		pod.Annotations[names.AnnotationGPUDevices] == binding.Annotations[names.AnnotationGPUDevices] &&
		pod.Annotations[names.AnnotationEpoch] == binding.Annotations[names.AnnotationEpoch]:
		return boundAsAsked
	case pod.UID != binding.UID, pod.Spec.NodeName != "", pod.DeletionTimestamp != nil:
		return neverBound
	}
	return unbound
}

// post sends the Binding, through the scheduler's queue of API calls if it has one.
func (p *Plugin) post(ctx context.Context, binding *corev1.Binding) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
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

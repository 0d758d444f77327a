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
	// answerWithin is how long a request can be under way: the API server's own --request-timeout, 1 min unless it is set.
	answerWithin = time.Minute
	// insistFor is how long a Binding is posted again after nobody told what became of it.
	insistFor = time.Minute
	// readWithin bounds a look at the pod, which changes nothing and can be repeated at once.
	readWithin = 5 * time.Second

	firstRetry, longestRetry = 50 * time.Millisecond, 2 * time.Second
)

// answer is what is known of a Binding that was posted.
type answer int

const (
	// bound: the pod is bound as asked.
	bound answer = iota
	// refused: this request has bound nothing, and will not.
	refused
	// unknown: it may be stored, now or in a moment. To take the cards back would be to give them twice.
	unknown
)

// answerOf reads the answer to a POST. A conflict, and a pod that is not there, say only that the pod is not free to be
// bound: by whom it is bound, perhaps by an earlier request of ours, is to be read. An error of the server, a time-out and
// a broken connection leave everything open, but for one: admission comes before anything is stored.
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

// notAdmitted tells the answers of an API server whose admission webhooks refused a request, with a status of their own
// choice, or could not be asked, which is an InternalError. Its type says no more, and its text is the API server's own
// (k8s.io/apiserver: ErrCallingWebhook in pkg/util/webhook, ToStatusErr in pkg/admission/plugin/webhook/errors).
func notAdmitted(message string) bool {
	return strings.HasPrefix(message, "Internal error occurred: failed calling webhook ") ||
		strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// bind binds a pod, or returns an error when it is certain that nothing has. The one other way to end is that of ctx, and
// with it of the leadership: what is bound in its name after that the fence refuses.
func (p *Plugin) bind(ctx context.Context, binding *corev1.Binding) error {
	end := p.Gate.Begin()
	err := p.post(ctx, binding)
	end() // one that nobody knows of holds up no other
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

// insist asks what became of a Binding of which nobody told, and posts it again, until the answer is certain. The Binding
// names the UID of the pod, so to post it twice binds once. After a refusal or a pod that waits unbound, an earlier request
// can still be on its way; it is certain that none is when all of them had the time that the API server gives to one.
func (p *Plugin) insist(ctx context.Context, binding *corev1.Binding, err error) error {
	klog.FromContext(ctx).Info("Nobody told whether the pod is bound, asking again; its cards stay taken",
		"pod", klog.KRef(binding.Namespace, binding.Name), "node", binding.Target.Name, "err", err)
	first := time.Now()
	last := first // when the last request ended that may be under way still
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		now := time.Now() // before the look, which tells nothing of what comes after it
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

// sight is what the API server shows of a pod that is to be bound.
type sight int

const (
	unseen       sight = iota // it does not answer
	unbound                   // the pod waits
	boundAsAsked              // it has the node, the cards and the epoch of the Binding
	neverBound                // it is gone or going, or is bound otherwise: no request of ours can bind it any more
)

// look reads how it stands with a pod.
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

// post sends the Binding, by way of the scheduler's queue of API calls where it has one.
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

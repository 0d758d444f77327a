package gpudevices

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// checkBindingTimeout is how long the API server has to answer. No answer counts as approval.
const checkBindingTimeout = 5 * time.Second

// CheckBinding asks the API server whether it would bind a pod to a node, and returns the words of its refusal, "" if it would not refuse or does not
// say. Nothing is bound: a dry run passes quotas, policies and webhooks, and ends before anything is stored (BindingREST in
// pkg/registry/core/pod/storage of Kubernetes). The Binding carries the leadership, and no GPUs, because none are chosen yet.
func (d *Dependencies) CheckBinding(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) (words string) {
	ctx, cancel := context.WithTimeout(ctx, checkBindingTimeout)
	defer cancel()
	binding := bindingOf(pod, node, d.leadershipAnnotations())
	return readRefusal(client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
}

// readRefusal interprets the response to a dry-run Binding. A webhook that cannot be called refuses as well: no pod leaves for one that would not be
// bound in its place.
func readRefusal(err error) (words string) {
	var status apierrors.APIStatus
	if IsVerdict(err) || errors.As(err, &status) && isWebhookFailure(status.Status().Message) {
		return err.Error()
	}
	return ""
}

// IsVerdict reports whether an error is the API server's verdict on a pod and its node: not that another scheduler leads, that the pod is not free to
// be bound, that there is no response, or that a webhook cannot be called or does not support dry runs.
func IsVerdict(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || RefusedByFence(err.Error()) {
		return false
	}
	switch status.Status().Code {
	case http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return true
	}
	return isWebhookDenial(status.Status().Message)
}

// leadershipAnnotations returns the annotations of a Binding that name the current leadership.
func (d *Dependencies) leadershipAnnotations() map[string]string {
	annotations := map[string]string{}
	if d.Epoch != nil {
		if epoch, ok := d.Epoch(); ok {
			annotations[names.AnnotationEpoch] = epoch
		}
	}
	return annotations
}

func bindingOf(pod *corev1.Pod, node string, annotations map[string]string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

package gpudevices

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cyclestate"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Bind binds the pod, with its cards, the leadership under which they were chosen and the place of the decision.
func (p *Plugin) Bind(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	p.Gate.Begin()
	defer p.Gate.End()
	annotations, err := p.annotations(pod, nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding to node %s: %w", nodeName, err))
	}
	if place, err := cyclestate.Read[*decision](cs, stateKey); err == nil {
		annotations[names.AnnotationDecision] = place.String()
	}
	klog.FromContext(ctx).V(4).Info("Binding pod", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName),
		"devices", annotations[names.AnnotationGPUDevices])
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	err = p.post(ctx, binding)
	if err != nil && !isRefusal(err) && p.took(ctx, binding) {
		return nil
	}
	return fwk.AsStatus(err)
}

// isRefusal reports whether an error of the API server tells that it has not bound the pod. Every other one, such as
// a time-out, leaves that open: the pod may hold its cards already.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// took reports whether the API server has bound the pod as we asked, though the answer was lost.
func (p *Plugin) took(ctx context.Context, binding *corev1.Binding) bool {
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	return err == nil && pod.UID == binding.UID && pod.Spec.NodeName == binding.Target.Name &&
		pod.Annotations[names.AnnotationGPUDevices] == binding.Annotations[names.AnnotationGPUDevices] &&
		pod.Annotations[names.AnnotationEpoch] == binding.Annotations[names.AnnotationEpoch]
}

// annotations returns what the API server is to write on the pod.
func (p *Plugin) annotations(pod *corev1.Pod, nodeName string) (map[string]string, error) {
	annotations := map[string]string{}
	if p.Epoch != nil {
		if epoch, ok := p.Epoch(); ok {
			annotations[names.AnnotationEpoch] = epoch
		}
	}
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return nil, err
	}
	if !demand.NeedsCards() {
		return annotations, nil
	}
	choice, ok := p.Ledger.Choice(pod.UID)
	if !ok || choice.Node != nodeName {
		return nil, fmt.Errorf("no cards are chosen there: enable %s at reserve as well", Name)
	}
	annotations[names.AnnotationGPUDevices], err = choice.Assignment.Encode()
	return annotations, err
}

// post sends the Binding, by way of the scheduler's queue of API calls where it has one.
func (p *Plugin) post(ctx context.Context, binding *corev1.Binding) error {
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

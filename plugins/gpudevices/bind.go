package gpudevices

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Bind binds the pod, with its GPUs and MIG slices, the leadership under which they were chosen, the number of the decision, and for a gang
// member the plan of its gang.
func (p *Plugin) Bind(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	annotations, err := p.bindingAnnotations(pod, nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding to node %s: %w", nodeName, err))
	}
	if place, err := cycle.Read[*decision](cs, stateKey); err == nil {
		annotations[names.AnnotationDecision] = place.String()
	}
	if plan := cycle.ReadPlanText(cs); plan != "" {
		annotations[names.AnnotationGangPlan] = plan
	}
	klog.FromContext(ctx).V(4).Info("Binding pod", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName),
		"devices", annotations[names.AnnotationGPUDevices])
	return fwk.AsStatus(p.bindPod(ctx, bindingOf(pod, nodeName, annotations)))
}

// bindingAnnotations returns the annotations that the API server copies to the pod.
func (p *Plugin) bindingAnnotations(pod *corev1.Pod, nodeName string) (map[string]string, error) {
	annotations := p.leadershipAnnotations()
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return nil, err
	}
	if !demand.NeedsGPUs() && !demand.NeedsSlices() {
		return annotations, nil
	}
	choice, ok := p.DeviceCache.ChoiceOf(pod.UID)
	if !ok || choice.Node != nodeName {
		if demand.NeedsGPUs() {
			return nil, fmt.Errorf("no cards are chosen there: enable %s at reserve as well", Name)
		}
		return annotations, nil // the node does not list its slices
	}
	annotations[names.AnnotationGPUDevices], err = choice.Encode()
	return annotations, err
}

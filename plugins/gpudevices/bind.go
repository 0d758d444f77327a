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
	annotations, err := p.annotations(pod, nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding to node %s: %w", nodeName, err))
	}
	if place, err := cycle.Read[*decision](cs, stateKey); err == nil {
		annotations[names.AnnotationDecision] = place.String()
	}
	if plan := cycle.Planned(cs); plan != "" {
		annotations[names.AnnotationGangPlan] = plan
	}
	klog.FromContext(ctx).V(4).Info("Binding pod", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName),
		"devices", annotations[names.AnnotationGPUDevices])
	return fwk.AsStatus(p.bind(ctx, bindingOf(pod, nodeName, annotations)))
}

// annotations returns the annotations that the API server copies to the pod.
func (p *Plugin) annotations(pod *corev1.Pod, nodeName string) (map[string]string, error) {
	annotations := p.leadership()
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return nil, err
	}
	if !demand.NeedsCards() && !demand.NeedsSlices() {
		return annotations, nil
	}
	choice, ok := p.Ledger.Choice(pod.UID)
	if !ok || choice.Node != nodeName {
		if demand.NeedsCards() {
			return nil, fmt.Errorf("no cards are chosen there: enable %s at reserve as well", Name)
		}
		return annotations, nil // the node does not list its slices
	}
	annotations[names.AnnotationGPUDevices], err = choice.Encode()
	return annotations, err
}

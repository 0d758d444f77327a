package diagnosis

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Placement is where a pod of the job is.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Pool string `json:"pool,omitempty"`
	Type string `json:"gpuType,omitempty"`
	// Devices are the GPUs that the scheduler chose, in the order of their index, and the MIG slices.
	Devices []gpu.Device `json:"devices,omitempty"`
	// Connection describes how the GPUs are connected.
	Connection string `json:"connection,omitempty"`
}

// jobPlacements lists where the job's pods run, as far as the user may read nodes.
func jobPlacements(f *Facts) []Placement {
	var out []Placement
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Spec.NodeName == "" || gpu.HasEnded(pod) {
			continue
		}
		placement := Placement{Pod: pod.Name, Node: pod.Spec.NodeName}
		at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == pod.Spec.NodeName })
		if at >= 0 {
			placement.fillFromNode(&f.Cluster.Nodes[at], pod)
		}
		out = append(out, placement)
	}
	return out
}

// fillFromNode fills in the data of the node and of the pod's annotation. An invalid annotation is ignored.
func (p *Placement) fillFromNode(node *corev1.Node, pod *corev1.Pod) {
	p.Pool, p.Type = gpu.PoolOf(node), gpu.TypeOf(node)
	for _, slice := range gpu.SlicesUnder(node, pod.UID, gpu.ChosenSlices(pod)) {
		p.Devices = append(p.Devices, gpu.Device{UUID: slice.UUID, Index: slice.GPU})
	}
	assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return
	}
	p.Devices = append(gpu.DevicesOf(pod), p.Devices...)
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return
	}
	allocator, _ := gpu.AllocatorOf(node, nil) // the error describes what was ignored, and the rest is valid
	holding, err := allocator.Resolve(&demand, assignment)
	if cards := holding.Whole | holding.Shared; err == nil && cards.Len() > 1 {
		p.Connection = fmt.Sprintf("%s, %d %% of the node's best", allocator.SlowestPath(cards), allocator.SetValue(cards))
	}
}

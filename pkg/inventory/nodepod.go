package inventory

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// NodePod is a pod as its node sees it.
type NodePod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// Job and Kind are empty for a pod alone, which belongs to no job and no workload.
	Job   string `json:"job,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Phase string `json:"phase"`
	// GPUs is what the pod holds, whole GPUs or slots of shared ones.
	GPUs    int64  `json:"gpus"`
	Devices string `json:"devices,omitempty"`
}

// buildNodePods returns the pods, those with the most GPUs first.
func buildNodePods(pods []corev1.Pod) []NodePod {
	out := make([]NodePod, len(pods))
	for i := range pods {
		out[i] = NodePod{
			Namespace: pods[i].Namespace,
			Name:      pods[i].Name,
			UID:       pods[i].UID,
			Job:       gang.WorkloadOf(&pods[i]).JobName(),
			Kind:      gang.WorkloadOf(&pods[i]).JobKind(),
			Phase:     string(pods[i].Status.Phase),
			Devices:   pods[i].Annotations[names.AnnotationGPUDevices],
		}
		if request, err := gpu.RequestOf(&pods[i]); err == nil {
			out[i].GPUs = request.Whole + request.Shared
		}
	}
	slices.SortFunc(out, func(a, b NodePod) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

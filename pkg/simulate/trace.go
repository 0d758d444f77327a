package simulate

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Traces count GPUs in thousandths and do not say how much memory the GPUs have. Here shares can hold traceGPUMiB of each
// GPU, so that a thousandth is exactly 1 MiB and a share is one of memory, as our plugins know them. The driver is taken to
// keep traceReservedMiB beside, as of any GPU of that size.
const (
	traceGPUMiB      = trace.MilliPerGPU
	traceReservedMiB = 512
	tracePodsANode   = 1001 // what the published simulator allows
	traceNamespace   = "trace"
)

// NodesFromTrace returns the nodes of an openb trace. Their GPUs can be had whole or shared by memory.
func NodesFromTrace(list []trace.Node) []*corev1.Node {
	nodes := make([]*corev1.Node, len(list))
	for i := range list {
		nodes[i] = nodeFromTrace(&list[i])
	}
	return nodes
}

func nodeFromTrace(n *trace.Node) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(n.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(n.MemoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(tracePodsANode, resource.DecimalSI),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name}}}
	if n.GPUs > 0 {
		resources[names.ResourceGPU] = *resource.NewQuantity(n.GPUs, resource.DecimalSI)
		resources[names.ResourceSharedGPU] = *resource.NewQuantity(n.GPUs*traceGPUMiB, resource.DecimalSI)
		node.Labels[names.LabelGPUType] = n.Model
		node.Labels[names.LabelNVIDIAMemory] = strconv.Itoa(traceGPUMiB + traceReservedMiB)
		node.Labels[names.LabelSharing] = names.SharingMemory
	}
	node.Status.Capacity, node.Status.Allocatable = resources, resources
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// ArrivalsFromTrace returns the pods of an openb trace in their order, all at once and forever: the published experiments
// ignore the times of the trace, which do not load the cluster.
func ArrivalsFromTrace(list []trace.Pod) []Arrival {
	arrivals := make([]Arrival, len(list))
	for i := range list {
		arrivals[i] = Arrival{Pod: podFromTrace(&list[i], i)}
	}
	return arrivals
}

// TimedArrivalsFromTrace returns the pods of an openb trace when they came, for as long as they ran.
func TimedArrivalsFromTrace(list []trace.Pod) []Arrival {
	arrivals := ArrivalsFromTrace(list)
	for i := range list {
		arrivals[i].At = list[i].Created
		arrivals[i].Lifetime = max(list[i].Deleted-list[i].Created, time.Second)
	}
	return arrivals
}

// podFromTrace returns a pod. The number makes it unique: a benchmark draws pods of the trace more than once.
func podFromTrace(p *trace.Pod, number int) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.MemoryMiB<<20, resource.BinarySI),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: traceNamespace, Name: p.Name, UID: types.UID(p.Name + "-" + strconv.Itoa(number)),
		},
		Spec: corev1.PodSpec{SchedulerName: names.SchedulerName},
	}
	annotations := map[string]string{}
	switch {
	case p.GPUs == 0:
	case p.MilliGPU < trace.MilliPerGPU:
		requests[names.ResourceSharedGPU] = *resource.NewQuantity(p.GPUs, resource.DecimalSI)
		annotations[names.AnnotationGPUShare] = strconv.FormatInt(p.MilliGPU*traceGPUMiB/trace.MilliPerGPU, 10) + "Mi"
	default:
		requests[names.ResourceGPU] = *resource.NewQuantity(p.GPUs, resource.DecimalSI)
	}
	pod.Annotations = annotations
	if len(p.Models) > 0 {
		pod.Spec.Affinity = gpuTypeAffinity(p.Models)
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}}
	return pod
}

// gpuTypeAffinity selects nodes of some GPU types, without preference.
func gpuTypeAffinity(models []string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: names.LabelGPUType, Operator: corev1.NodeSelectorOpIn, Values: models,
			}},
		}}},
	}}
}

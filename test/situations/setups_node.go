package situations

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// nodeSetups are about the nodes that there are, against what the job asks of them.
var nodeSetups = map[string]func(*World){
	"pool misspelt": func(w *World) {
		w.template.Spec.NodeSelector[names.LabelPool] = "trian-pool"
		w.sayVerdict("pool", reason.PoolUnknown.Text.FormatText("trian-pool", "pools: "+jobPool))
	},
	"type misspelt": func(w *World) {
		w.template.Spec.NodeSelector[names.LabelGPUType] = "A100-80g"
		w.sayVerdict("type", reason.TypeNotInPool.Text.FormatText(jobPool, "A100-80g", "types: A100-80G"))
	},
	"type of another pool": func(w *World) {
		w.template.Spec.NodeSelector[names.LabelGPUType] = "H100-80G"
		w.nodes = append(w.nodes, *fixture.Node("h1").Pool("h100-pool").GPUs(8, "H100-80G").Obj())
		w.sayVerdict("type", reason.TypeNotInPool.Text.FormatText(jobPool, "H100-80G", "types: A100-80G"))
	},
	"sixteen GPUs": func(w *World) {
		w.askGPUs("16")
		w.sayVerdict("node", oneNode+"node(s) have fewer GPUs than the pod asks for.")
	},
	"six GPUs of two half full nodes": func(w *World) {
		w.askGPUs("6")
		w.nodes = append(w.nodes, *fixture.Node("n2").Pool(jobPool).GPUs(8, "A100-80G").Obj())
		w.holders = append(w.holders, w.holderOn("n1", names.PriorityClassMedium, 4), w.holderOn("n2", names.PriorityClassMedium, 4))
		w.sayVerdict("room", "0/2 nodes are available: 2 node(s) have too few free GPUs.")
	},
	"node cordoned": func(w *World) {
		w.nodes[0].Spec.Unschedulable = true
		w.sayVerdict("node", oneNode+"node(s) were unschedulable.")
	},
	"node not ready": func(w *World) {
		w.nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown
		w.nodes[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(Noon.Add(-3 * time.Minute))
		w.nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}
		w.sayVerdict("node", oneNode+"node(s) had untolerated taint(s).")
	},
	"node tainted": func(w *World) {
		w.nodes[0].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "research", Effect: corev1.TaintEffectNoSchedule}}
		w.sayVerdict("node", oneNode+"node(s) had untolerated taint(s).")
	},
	"node kept for others": func(w *World) {
		w.cluster.GPUReservations = []names.GPUReservation{{ObjectMeta: metav1.ObjectMeta{Name: "firmware"}, Spec: names.GPUReservationSpec{
			Nodes: []string{"n1"}, From: metav1.NewTime(Noon.Add(2 * time.Hour)), To: metav1.NewTime(Noon.Add(4 * time.Hour)),
		}}}
		w.sayVerdict("node", oneNode+string(reason.Reserved.Text)+".")
	},
	"label that no node has": func(w *World) {
		w.template.Spec.NodeSelector["disk"] = "nvme"
		w.sayVerdict("node", oneNode+"node(s) didn't match Pod's node affinity/selector.")
	},
	"two hundred CPUs": func(w *World) {
		w.setResource(corev1.ResourceCPU, "200")
		w.sayVerdict("room", "0/1 nodes are available: 1 Insufficient cpu.")
	},
	"two TiB of memory": func(w *World) {
		w.setResource(corev1.ResourceMemory, "2Ti")
		w.sayVerdict("room", "0/1 nodes are available: 1 Insufficient memory.")
	},
	"node with as many pods as it takes": func(w *World) {
		w.nodes[0].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
		w.holders = append(w.holders, w.holderOn("n1", names.PriorityClassMedium, 1))
		w.sayVerdict("room", "0/1 nodes are available: 1 Too many pods.")
	},
	"node without GPUs": func(w *World) {
		w.nodes = []corev1.Node{*fixture.Node("n1").Pool(jobPool).Label(names.LabelGPUType, "A100-80G").Obj()}
		w.sayVerdict("node", oneNode+"node(s) have no GPUs.")
	},
	"share noted": func(w *World) { w.template.Annotations = map[string]string{names.AnnotationGPUShare: "30Gi"} },
	"GPU quota used up": func(w *World) {
		w.cluster.GPUQuotas = []names.GPUQuota{{ObjectMeta: metav1.ObjectMeta{Name: "share", Generation: 1}, Spec: names.GPUQuotaSpec{
			Namespaces: []string{namespace}, Pool: jobPool, Max: ptr.To[int64](4),
		}}}
		mine := w.holderOn("n1", names.PriorityClassMedium, 4)
		mine.Namespace, mine.Spec.NodeSelector = namespace, map[string]string{names.LabelPool: jobPool}
		w.holders = append(w.holders, mine)
		w.sayVerdict("quota", reason.QuotaUsed.Text.FormatText("4 of 4", "share", 4))
	},
	"pool closed": func(w *World) {
		w.cluster.GPUPools = []names.GPUPool{{ObjectMeta: metav1.ObjectMeta{Name: jobPool}, Spec: names.GPUPoolSpec{Access: names.PoolAccess{Namespaces: []string{"research"}}}}}
	},
	"pool takes low": func(w *World) {
		w.cluster.GPUPools = []names.GPUPool{{ObjectMeta: metav1.ObjectMeta{Name: jobPool}, Spec: names.GPUPoolSpec{Access: names.PoolAccess{Priorities: []names.PoolPriority{"low"}}}}}
	},
}

// setResource has the container of each pod ask for an amount of a resource.
func (w *World) setResource(name corev1.ResourceName, amount string) {
	resources := &w.template.Spec.Containers[0].Resources
	resources.Requests[name], resources.Limits[name] = resource.MustParse(amount), resource.MustParse(amount)
}

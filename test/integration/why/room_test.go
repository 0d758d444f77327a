package why

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noRoom = map[string]situation{
	"more GPUs than a node has": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj(), e.node("m").GPUs(4, a100).Obj())
			e.waits(e.pod(16).Obj())
		},
		cause: reason.TooManyGPUs, says: []string{"a pod asks for 16", "ask for at most 8 GPUs per pod"},
	},
	"all GPUs are in use": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.hold("n", 6)
			e.waits(e.pod(4).Obj())
		},
		cause: reason.Busy, says: []string{
			"2 of 8 GPUs are free", "is 2 GPUs short", "job holder", "holds 6", "at most 2 GPUs per pod",
		},
	},
	"enough GPUs, but on two nodes": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj(), e.node("m").GPUs(8, a100).Obj())
			e.hold("n", 5)
			e.hold("m", 4)
			e.waits(e.pod(6).Obj())
		},
		cause: reason.Fragmented, says: []string{"7 GPUs are free on 2 nodes", "at most 4 on one", "is 2 GPUs short", "at most 4 GPUs per pod"},
	},
	"too little CPU": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			setRequest(pod, corev1.ResourceCPU, "200")
			e.waits(pod)
		},
		cause: reason.CPUShort, says: []string{"asks for 200", "resources.cpu"},
	},
	"too little memory": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			setRequest(pod, corev1.ResourceMemory, "2Ti")
			e.waits(pod)
		},
		cause: reason.MemoryShort, says: []string{"asks for 2Ti", "resources.memory"},
	},
	"a resource of another kind": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			setRequest(pod, "rdma/hca", "1")
			e.waits(pod)
		},
		cause: reason.ResourceShort, says: []string{"1 of rdma/hca, and no node of the cluster offers that resource"},
	},
	"as many pods as the node takes": {
		script: func(e *env) {
			node := e.node("n").GPUs(8, a100).Obj()
			node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
			e.createNodes(node)
			e.hold("n", 1)
			e.waits(e.pod(1).Obj())
		},
		cause: reason.PodLimit, says: []string{"as many pods as a node takes"},
	},
	"GPUs with too little memory": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, t4).Label(names.LabelMemory, "16Gi").Obj())
			e.waits(e.pod(1).Annotate(names.AnnotationGPUMemoryMin, "40Gi").Obj())
		},
		cause: reason.GPUMemory, says: []string{"the largest has 16384 MiB", "ask for at most 16384 MiB"},
	},
	"cards that are not healthy": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(2, a100).
				Annotate(names.AnnotationInventory, fixture.Cards("n", 81920, 81920).Unhealthy(1).Annotation(e)).Obj())
			e.waits(e.pod(2).Obj())
		},
		cause: reason.UnhealthyGPUs, says: []string{"1 of 2 healthy, 1 short", "ask for at most 1 GPU per pod"},
	},
	"shared GPUs without enough memory left": {
		script: func(e *env) {
			e.createNodes(e.node("n").SharedGPUs(1, 100).Label(names.LabelMemory, "16Gi").Label(names.LabelGPUType, t4).Obj())
			e.waits(e.pod(0).SharedGPUs(1, "20Gi").Obj())
		},
		cause: reason.GPUMemory, says: []string{"20480 MiB", "ask for at most 15872 MiB"},
	},
}

var closedNodes = map[string]situation{
	"cordoned": {
		script: func(e *env) {
			node := e.node("n").GPUs(8, a100).Obj()
			node.Spec.Unschedulable = true
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			e.createNodes(node)
			e.waits(e.pod(1).Obj())
		},
		cause: reason.Cordoned, says: []string{"1 node cordoned", "ask them when the nodes come back"},
	},
	"not ready": {
		script: func(e *env) {
			node := e.node("n").GPUs(8, a100).Obj()
			node.Status.Conditions[0].Status = corev1.ConditionFalse
			e.createNodes(node)
			e.waits(e.pod(1).Obj())
		},
		cause: reason.NotReady, says: []string{"1 node not ready", "kubectl describe node"},
	},
	"a taint of their own": {
		script: func(e *env) {
			node := e.node("n").GPUs(8, a100).Obj()
			node.Spec.Taints = []corev1.Taint{{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}}
			e.createNodes(node)
			e.waits(e.pod(1).Obj())
		},
		cause: reason.Tainted, says: []string{"team=vision:NoSchedule", "resources.tolerations"},
	},
}

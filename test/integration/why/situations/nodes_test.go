package situations

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// wrongNodes have no place for the job, however empty they are.
var wrongNodes = map[string]situation{
	"a pool is misspelt": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.pool", w.pool+"x")
		},
		want: reason.NoSuchPool, says: []string{"no node is in pool", "did you mean pool"},
	},
	"a pool that nothing is called like": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.pool", "q")
		},
		want: reason.NoSuchPool, says: []string{"name a pool that has nodes for it: pool-"}, never: []string{"did you mean"},
	},
	"a type in lower case": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.gpu-type", "x-"+w.namespace)
		},
		want: reason.TypeMisspelt, says: []string{"did you mean X-"},
	},
	"a type that nobody has": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.gpu-type", "H900-7G")
		},
		want: reason.NoSuchType, says: []string{"no node of pool", "H900-7G", "ask for a type that"},
	},
	"a type of another pool": {
		make: func(w *world) {
			w.add(w.node("a", 8).Label(names.LabelGPUType, "OTHER-GPU"), w.node("b", 4).Pool(w.pool+"-b"))
			w.submit()
		},
		want: reason.TypeInOtherPool, says: []string{"-b (4 of 4 such GPUs free)"},
	},
	"a pool and a type are wrong": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.pool", w.pool+"x", "resources.gpu-type", "x-"+w.namespace)
		},
		want: reason.NoSuchPool, also: []reason.Cause{reason.TypeMisspelt}, says: []string{"did you mean pool"},
	},
	"more GPUs than a node has": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 4))
			w.submit("resources.gpu", 16)
		},
		want: reason.TooManyGPUs, says: []string{"2 nodes with 8 GPUs at most; a pod asks for 16", "ask for at most 8 GPUs per pod"},
	},
	"a card is not healthy": {
		make: func(w *world) {
			w.add(w.node("a", 2).Annotate(names.AnnotationInventory, fixture.Cards("a", 81920, 81920).Unhealthy(1).Annotation(w)))
			w.submit("resources.gpu", 2)
		},
		want: reason.UnhealthyGPUs, says: []string{"1 of 2 healthy, 1 short", "ask for at most 1 GPU per pod"},
	},
	"a card is not healthy, and is mended": {
		make: func(w *world) {
			w.add(w.node("a", 2).Annotate(names.AnnotationInventory, fixture.Cards("a", 81920, 81920).Unhealthy(1).Annotation(w)))
			w.knows[string(reason.MendGPUs)] = fixture.Cards("a", 81920, 81920).Annotation(w)
			w.submit("resources.gpu", 2)
		},
		want: reason.UnhealthyGPUs, says: []string{"tell the administrators that cards need mending"}, follow: reason.MendGPUs,
	},
	"an inventory is malformed": {
		make: func(w *world) {
			node := fixture.Node(w.name("a")).Pool(w.pool).GPUs(2, w.gpuType).Annotate("kwok.x-k8s.io/node", "fake")
			w.add(node.Annotate(names.AnnotationInventory, `{"version":1,"cards":`))
			w.knows[string(reason.CorrectNode)] = fixture.Cards("a", 81920, 81920).Annotation(w)
			w.raw = func(job *batchv1.Job, _ string) {
				job.Spec.Template.Annotations = map[string]string{names.AnnotationGPUMemoryMin: "40Gi"}
			}
			w.submit()
		},
		want: reason.BadInventory, says: []string{"annotation g8s.host/gpu-inventory cannot be read", "has to write it again"},
	},
	"a share larger than a card": {
		make: func(w *world) {
			w.add(sharing(w, "a", 2, "16Gi"))
			w.submit("resources.gpu-share", "20Gi")
		},
		want: reason.GPUMemory, says: []string{"0 of 2 large enough for 20480 MiB", "ask for at most 15872 MiB on each GPU: 15872Mi in resources.gpu-share"},
		never: []string{"ask for at most 2 GPUs"},
	},
	"a share of all of a card, of which the driver keeps some": {
		make: func(w *world) {
			w.add(sharing(w, "a", 2, "16Gi"))
			w.submit("resources.gpu-share", "16Gi")
		},
		want: reason.GPUMemory, says: []string{"the largest has 16384 MiB, of which shares can hold 15872", "ask for at most 15872 MiB on each GPU"},
		never: []string{"ask for at most 2 GPUs"},
	},
	"a share larger than a card, and a pool with larger ones": {
		make: func(w *world) {
			w.add(sharing(w, "a", 2, "16Gi"), sharing(w, "b", 2, "8Gi").Pool(w.pool+"-small"), sharing(w, "c", 2, "48Gi").Pool(w.pool+"-large"))
			w.submit("resources.gpu-share", "20Gi")
		},
		want: reason.GPUMemory, says: []string{"-large ("}, never: []string{"-small"}, follow: reason.Move,
	},
	"a share where GPUs are whole": {
		make: func(w *world) {
			w.add(w.node("a", 2))
			w.raw = func(job *batchv1.Job, _ string) {
				resources := &job.Spec.Template.Spec.Containers[0].Resources
				for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
					delete(list, names.ResourceGPU)
					list[names.ResourceSharedGPU] = resource.MustParse("1")
				}
			}
			w.submit("resources.gpu-share", "20Gi")
		},
		want: reason.NotShared, says: []string{"whose GPUs are not shared", "gets whole GPUs"},
	},
	"whole GPUs where they are shared": {
		make: func(w *world) {
			w.add(sharing(w, "a", 2, "16Gi"))
			w.knows["resources.gpu-share"] = "8Gi"
			w.submit()
		},
		want: reason.NotShared, says: []string{"whose GPUs are shared by memory; the pod asks for whole ones", "resources.gpu-share"},
	},
}

// sharing is a node that shares its cards by memory.
func sharing(w *world, name string, cards int, memory string) *fixture.NodeBuilder {
	return fixture.Node(w.name(name)).Pool(w.pool).SharedGPUs(cards, 100).Label(names.LabelGPUType, w.gpuType).
		Label(names.LabelMemory, memory).Annotate("kwok.x-k8s.io/node", "fake")
}

// closedNodes take no pods, or not this one.
var closedNodes = map[string]situation{
	"cordoned": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.patchNode(w.name("a"), `{"spec":{"unschedulable":true}}`)
			w.submit()
		},
		want: reason.Cordoned, says: []string{"1 node cordoned", "kubectl uncordon"},
	},
	"cordoned, and another pool is open": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8).Pool(w.pool+"-b"))
			w.patchNode(w.name("a"), `{"spec":{"unschedulable":true}}`)
			w.submit()
		},
		want: reason.Cordoned, says: []string{"use a pool that has it: "}, follow: reason.Move,
	},
	"tainted": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.patchNode(w.name("a"), `{"spec":{"taints":[{"key":"team","value":"vision","effect":"NoSchedule"}]}}`)
			w.submit()
		},
		want: reason.Tainted, says: []string{"team=vision:NoSchedule", "resources.tolerations"},
	},
	"not ready": {
		make: func(w *world) {
			node := w.node("a", 8).Obj()
			node.Status.Conditions[0].Status = corev1.ConditionFalse
			w.addNode(node)
			w.submit()
		},
		want: reason.NotReady, says: []string{"1 node not ready", "tell the administrators: kubectl describe node"},
	},
	"a pod is pinned to a node that is not there": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, corrected string) {
				if corrected == "" {
					job.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = "gone-7"
				}
			}
			w.submit()
		},
		want: reason.NodeSelector, says: []string{"none has kubernetes.io/hostname=gone-7"},
	},
	"one is cordoned, and the other one busy": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8))
			w.patchNode(w.name("a"), `{"spec":{"unschedulable":true}}`)
			w.hold("other", "b", 8)
			w.submit()
		},
		want: reason.Busy, also: []reason.Cause{reason.Cordoned}, says: []string{"job other of namespace", "1 node cordoned"},
	},
}

// cannotBeRead asks for what is not well-formed.
var cannotBeRead = map[string]situation{
	"the list of types": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = annotated(names.AnnotationGPUTypes, "A100,,")
			w.submit()
		},
		want: reason.MalformedRequest, says: []string{names.AnnotationGPUTypes, `"A100,,"`, "correct it, then delete the job and submit it again"},
	},
	"the least memory of a card": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = annotated(names.AnnotationGPUMemoryMin, "much")
			w.submit()
		},
		want: reason.MalformedRequest, says: []string{names.AnnotationGPUMemoryMin, "much"},
	},
}

// annotated has the job's pods carry an annotation until it is corrected.
func annotated(name, value string) func(*batchv1.Job, string) {
	return func(job *batchv1.Job, corrected string) {
		if corrected == "" {
			job.Spec.Template.Annotations = map[string]string{name: value}
		}
	}
}

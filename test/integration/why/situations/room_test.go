package situations

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// noRoom is on nodes that others hold.
var noRoom = map[string]situation{
	"equals hold the GPUs": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 6, ofPriority("g8s-high"))
			w.submit("resources.gpu", 4, "job.priority", "high")
		},
		want:  reason.Busy,
		says:  []string{"2 of 8 GPUs are free", "is 2 GPUs short", "holds 6 (priority high)", "nobody of lower priority", "can stop nobody"},
		never: []string{"give it priority"},
	},
	"the job could do with fewer GPUs": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 6)
			w.submit("resources.gpu", 4)
		},
		want: reason.Busy, says: []string{"ask for at most 2 GPUs per pod"}, follow: reason.SetField,
	},
	"others of low priority hold the GPUs": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 6, ofPriority("g8s-low"))
			w.submit("resources.gpu", 4)
		},
		want: reason.Busy, follow: reason.SetPriority,
		says: []string{"holds 6 (priority low)", "give it priority high, which would stop others", "at its own priority it stops nobody"},
	},
	"a job of high priority holds the GPUs": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 6, ofPriority("g8s-high"))
			w.submit("resources.gpu", 4)
		},
		want: reason.Busy, says: []string{"nobody there has a priority below high"}, never: []string{"give it priority high"},
	},
	"GPUs are free, but not on one node": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8))
			w.hold("one", "a", 5)
			w.hold("two", "b", 4)
			w.submit("resources.gpu", 6)
		},
		want: reason.Fragmented, says: []string{"7 GPUs are free on 2 nodes, but at most 4 on one", "is 2 GPUs short", "gpuctl advise defrag"},
	},
	"others leave for it": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			leaves := func(pod *corev1.Pod) {
				pod.Labels[lingers] = "true"
				pod.Spec.PriorityClassName = names.PriorityClassLow
			}
			w.hold("one", "a", 4, leaves)
			w.hold("two", "a", 4, leaves)
			w.submit("resources.gpu", 8, "job.priority", "high")
		},
		want: reason.Preempting, says: []string{"waits for 2 pods to leave", "job one of namespace", "job two of namespace", "left to end"},
		never: []string{"(Fragmented)"},
	},
	"too little memory is free": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 1, asking(corev1.ResourceMemory, "1000Gi"))
			w.submit("resources.memory", "100Gi")
		},
		want: reason.MemoryShort, says: []string{"a pod asks for 100Gi, at most 24Gi is free", "ask for at most 24Gi in resources.memory", "job other of namespace"},
	},
	"too little memory is free, and less would do": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 1, asking(corev1.ResourceMemory, "1000Gi"))
			w.submit("resources.memory", "100Gi")
		},
		want: reason.MemoryShort, follow: reason.SetField,
	},
	"more CPU than a node has": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.cpu", 200)
		},
		want: reason.CPUShort, says: []string{"a pod asks for 200", "no node has more than 128", "ask for at most 128 in resources.cpu"},
		never: []string{"wait until other pods end"},
	},
	"as many pods as the node takes": {
		make: func(w *world) {
			node := w.node("a", 8).Obj()
			node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
			w.addNode(node)
			w.hold("other", "a", 1)
			w.submit()
		},
		want: reason.PodLimit, says: []string{"as many pods as a node takes", "job other of namespace"},
	},
	"a claim is missing, and there is no room": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 8)
			w.submit("storage.workdirs", claimed("data"))
		},
		want: reason.VolumeMissing, also: []reason.Cause{reason.Busy}, says: []string{"no PersistentVolumeClaim data", "0 of 8 GPUs are free"},
	},
}

func asking(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		resources := &pod.Spec.Containers[0].Resources
		resources.Requests[name], resources.Limits[name] = resource.MustParse(amount), resource.MustParse(amount)
	}
}

// claimed mounts a claim.
func claimed(name string) []any {
	return []any{map[string]any{"path": "/data", "pvc": name}}
}

// severalNodes start together.
var severalNodes = map[string]situation{
	"room for two of three": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8), w.node("c", 8))
			w.hold("other", "c", 2)
			w.submit("resources.gpu", 8, "resources.nodes", 3)
		},
		want: reason.GangWaiting, says: []string{"there is room for 2 of the 3 members", "-c is 2 GPUs short; job other of namespace", "holds 2", "only if all of it starts then"},
	},
	"room for two of three, and two would do": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8), w.node("c", 8))
			w.hold("other", "c", 2)
			w.submit("resources.gpu", 8, "resources.nodes", 3)
		},
		want: reason.GangWaiting, says: []string{"ask for 2 nodes in resources.nodes"}, follow: reason.SetField,
	},
	"more members than the nodes ever take": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8))
			w.submit("resources.gpu", 8, "resources.nodes", 3)
		},
		want: reason.GangTooLarge, says: []string{"take 2 of its 3 members, even when they are empty", "ask for at most 2 nodes"},
	},
	"more members than the nodes ever take, and a larger pool": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8).Pool(w.pool+"-b"), w.node("c", 8).Pool(w.pool+"-b"))
			w.submit("resources.gpu", 8, "resources.nodes", 2)
		},
		want: reason.GangTooLarge, says: []string{"use a larger pool"}, follow: reason.Move,
	},
	"a quota keeps members away": {
		make: func(w *world) {
			w.add(w.node("a", 8), w.node("b", 8))
			w.quota("team", gpusOf("8"))
			w.submit("resources.gpu", 8, "resources.nodes", 2)
		},
		want: reason.QuotaExceeded, also: []reason.Cause{reason.GangIncomplete}, follow: reason.RaiseQuota,
		says: []string{"the job has 2 pods: it never fits", "requests.nvidia.com/gpu=16 lets the job in", "ask for at most 4 in resources.gpu"},
	},
	"all its nodes are cordoned": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.patchNode(w.name("a"), `{"spec":{"unschedulable":true}}`)
			w.submit("resources.gpu", 2, "resources.nodes", 2)
		},
		want: reason.Cordoned, says: []string{"1 node cordoned"}, never: []string{"wait until other jobs end"},
	},
	"its PodGroup is gone": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 8)
			w.submit("resources.gpu", 2, "resources.nodes", 2)
			w.withoutGroup()
		},
		want: reason.GangIncomplete, also: []reason.Cause{reason.Busy}, says: []string{"which does not exist", "gpuctl apply with the same file"},
	},
}

// withoutGroup deletes the PodGroup of the job, and makes room so that the scheduler tries its pods.
func (w *world) withoutGroup() {
	w.Helper()
	groups := dynamic.NewForConfigOrDie(cluster.RESTConfig()).Resource(schema.GroupVersionResource{
		Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}).Namespace(w.namespace)
	var list *unstructured.UnstructuredList
	w.eventually("the PodGroup", func(ctx context.Context) (found bool) {
		var err error
		list, err = groups.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1
	})
	w.must(groups.Delete(w.Context(), list.Items[0].GetName(), metav1.DeleteOptions{}))
	// A change of the node has the scheduler look at the members again.
	w.patchNode(w.name("a"), `{"metadata":{"labels":{"touched":"yes"}}}`)
}

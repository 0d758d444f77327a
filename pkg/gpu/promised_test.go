package gpu_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

func asking(scheduler string, name corev1.ResourceName, amount int64) *corev1.Pod {
	pod := fixture.Pod("p").Obj()
	pod.Spec.SchedulerName, pod.Spec.NodeName = scheduler, "n"
	list := corev1.ResourceList{name: *resource.NewQuantity(amount, resource.DecimalSI)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	return pod
}

func TestPlacedByOther(t *testing.T) {
	node := fixture.Node("n").Pool("volcano").Obj()
	tests := map[string]struct {
		pod    *corev1.Pod
		change func(*corev1.Pod)
		want   bool
	}{
		"the usual one":              {pod: asking("default-scheduler", names.ResourceGPU, 1), want: true},
		"the usual one, for a slice": {pod: asking("default-scheduler", names.ResourceMIGPrefix+"1g.5gb", 1), want: true},
		"the usual one, for a share": {pod: asking("default-scheduler", names.ResourceSharedGPU, 1), want: true},
		"ours":                       {pod: asking(names.SchedulerName, names.ResourceGPU, 1)},
		"one in a pool of its own":   {pod: asking("volcano", names.ResourceGPU, 1)},
		"without GPUs":               {pod: asking("default-scheduler", corev1.ResourceCPU, 1)},
		"with 0 GPUs":                {pod: asking("default-scheduler", names.ResourceGPU, 0)},
		"waiting":                    {pod: asking("default-scheduler", names.ResourceGPU, 1), change: func(p *corev1.Pod) { p.Spec.NodeName = "" }},
		"ended":                      {pod: asking("default-scheduler", names.ResourceGPU, 1), change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"of a file of the node": {pod: asking("default-scheduler", names.ResourceGPU, 1),
			change: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "a"} }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.pod)
			}
			if got := gpu.PlacedByOther(node, test.pod); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestPromisedOn(t *testing.T) {
	const slice = names.ResourceMIGPrefix + "1g.5gb"
	ended := asking("a", names.ResourceGPU, 8)
	ended.Status.Phase = corev1.PodSucceeded
	tests := map[string]struct {
		has  map[corev1.ResourceName]int64
		pods []*corev1.Pod
		want gpu.Promised
	}{
		"as many as there are":       {has: map[corev1.ResourceName]int64{names.ResourceGPU: 8}, pods: []*corev1.Pod{asking("a", names.ResourceGPU, 4), asking("b", names.ResourceGPU, 4)}, want: gpu.Promised{Asked: 8, Has: 8}},
		"twice as many":              {has: map[corev1.ResourceName]int64{names.ResourceGPU: 8}, pods: []*corev1.Pod{asking("a", names.ResourceGPU, 8), asking("b", names.ResourceGPU, 8)}, want: gpu.Promised{Asked: 16, Has: 8}},
		"those that have ended":      {has: map[corev1.ResourceName]int64{names.ResourceGPU: 8}, pods: []*corev1.Pod{ended, asking("b", names.ResourceGPU, 8)}, want: gpu.Promised{Asked: 8, Has: 8}},
		"a device plugin that fell":  {pods: []*corev1.Pod{asking("b", names.ResourceGPU, 8)}},
		"slices beside enough cards": {has: map[corev1.ResourceName]int64{names.ResourceGPU: 8, slice: 7}, pods: []*corev1.Pod{asking("b", slice, 9)}, want: gpu.Promised{Asked: 9, Has: 7}},
		"slots":                      {has: map[corev1.ResourceName]int64{names.ResourceSharedGPU: 80}, pods: []*corev1.Pod{asking("b", names.ResourceSharedGPU, 81)}, want: gpu.Promised{Asked: 81, Has: 80}},
		"amounts without bound": {has: map[corev1.ResourceName]int64{names.ResourceGPU: 8}, pods: []*corev1.Pod{asking("a", names.ResourceGPU, math.MaxInt64), asking("b", names.ResourceGPU, math.MaxInt64)},
			want: gpu.Promised{Asked: 2 << 40, Has: 8}},
		"no GPUs": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}}
			for kind, count := range test.has {
				node.Status.Capacity[kind] = *resource.NewQuantity(count, resource.DecimalSI)
			}
			if got := gpu.MostPromisedOn(node, test.pods); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

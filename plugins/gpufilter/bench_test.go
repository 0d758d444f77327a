package gpufilter

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func benchmarkNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = gpuNode(fmt.Sprintf("n%d", i), fmt.Sprintf("pool%d", i%4), "A100-80G")
	}
	return nodes
}

// BenchmarkFilter judges every node of a cluster once an iteration; it must not allocate.
func BenchmarkFilter(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			pod := podOf("pool1", "4").Annotation(names.AnnotationGPUTypes, "A800-80G,A100-80G").Obj()
			nodes := benchmarkNodes(count)
			for _, node := range nodes {
				node.Labels[names.LabelPool] = "pool1"
			}
			plugin, list := newPlugin(b, &configv1.GPUFilterArgs{}, nodes...), infos(nodes)
			cycle := framework.NewCycleState()
			if _, status := plugin.PreFilter(b.Context(), cycle, pod, list); !status.IsSuccess() {
				b.Fatal(status)
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				for _, node := range list {
					if status := plugin.Filter(ctx, cycle, pod, node); status != nil {
						b.Fatal(status)
					}
				}
			}
		})
	}
}

// BenchmarkPreFilter finds a quarter of the nodes through the index.
func BenchmarkPreFilter(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			nodes := benchmarkNodes(count)
			plugin, list := newPlugin(b, &configv1.GPUFilterArgs{}, nodes...), infos(nodes)
			pod, cycle, ctx := podOf("pool1", "4").Obj(), framework.NewCycleState(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, status := plugin.PreFilter(ctx, cycle, pod, list); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
}

func BenchmarkHint(b *testing.B) {
	plugin, pod, node := newPlugin(b, &configv1.GPUFilterArgs{}), podOf("a", "2").Obj(), gpuNode("n", "a", "T4")
	other := gpuNode("n", "b", "T4")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plugin.afterNodeChange(klog.Background(), pod, other, node); err != nil {
			b.Fatal(err)
		}
	}
}

package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// cluster sizes of the benchmarks, in nodes of eight cards.
var sizes = []int{1000, 5000}

// fleet fills a bed with nodes that report their cards, on which pods of one GPU hold up to six of them.
func fleet(b *testing.B, bed *bed, count int) []fwk.NodeInfo {
	b.Helper()
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range count {
		name := fmt.Sprintf("node-%d", i)
		node := fixture.Node(name).GPUs(8, "V100-32G").Annotate(names.AnnotationInventory, fixture.DGX1(name).Annotation(b)).Obj()
		nodes = append(nodes, node)
		for card := range i % 7 {
			pod := fixture.Pod(fmt.Sprintf("pod-%d-%d", i, card)).GPUs(1).Obj()
			pod.UID, pod.Spec.NodeName = types.UID(pod.Name), name
			text, err := (gpu.Assignment{"main": {{UUID: fixture.UUID(name, card), Index: card}}}).Encode()
			if err != nil {
				b.Fatal(err)
			}
			pod.Annotations[names.AnnotationGPUDevices] = text
			pods = append(pods, pod)
		}
	}
	return bed.set(b, nodes, pods)
}

// waiting is the pod that the benchmarks place: two GPUs, which all nodes have.
func waiting() *corev1.Pod {
	pod := fixture.Pod("waiting").GPUs(2).Annotate(names.AnnotationGPUTypes, "V100-32G,A100-80G").Obj()
	pod.UID = "waiting"
	return pod
}

// perNode reports what one node cost.
func perNode(b *testing.B, count int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/node")
}

// BenchmarkFilter judges every node of a cluster once an iteration.
func BenchmarkFilter(b *testing.B) {
	for _, count := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			bed := newBed(b)
			list, pod, state, ctx := fleet(b, bed, count), waiting(), framework.NewCycleState(), b.Context()
			if _, status, _ := bed.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
				b.Fatal(status)
			}
			judge := func() {
				for _, node := range list {
					if status := bed.RunFilterPlugins(ctx, state, pod, node); !status.IsSuccess() {
						b.Fatal(status)
					}
				}
			}
			judge() // cards are read once
			b.ReportAllocs()
			for b.Loop() {
				judge()
			}
			perNode(b, count)
		})
	}
}

// BenchmarkScore values every node of a cluster once an iteration, in parallel as kube-scheduler does.
func BenchmarkScore(b *testing.B) {
	for _, count := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			bed := newBed(b)
			list, pod, state, ctx := fleet(b, bed, count), waiting(), framework.NewCycleState(), b.Context()
			score := func() {
				if status := bed.RunPreScorePlugins(ctx, state, pod, list); !status.IsSuccess() {
					b.Fatal(status)
				}
				if _, status := bed.RunScorePlugins(ctx, state, pod, list); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
			score()
			b.ReportAllocs()
			for b.Loop() {
				score()
			}
			perNode(b, count)
		})
	}
}

// BenchmarkReserve chooses cards on one node after the other, and gives them back.
func BenchmarkReserve(b *testing.B) {
	for _, count := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			bed := newBed(b)
			list, pod, state, ctx := fleet(b, bed, count), waiting(), framework.NewCycleState(), b.Context()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				node := list[i%len(list)].Node().Name
				if status := bed.RunReservePluginsReserve(ctx, state, pod, node); !status.IsSuccess() {
					b.Fatal(status)
				}
				bed.RunReservePluginsUnreserve(ctx, state, pod, node)
			}
		})
	}
}

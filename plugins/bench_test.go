package plugins_test

import (
	"fmt"
	"syscall"
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

// processor measures processor time, which other work on the machine disturbs less than it does the time that passes.
type processor struct{ before syscall.Rusage }

func newProcessor() *processor {
	p := &processor{}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &p.before) // fails for wrong arguments alone
	return p
}

// report tells what one of so many things took in each iteration.
func (p *processor) report(b *testing.B, things int, unit string) {
	var after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	took := after.Utime.Nano() + after.Stime.Nano() - p.before.Utime.Nano() - p.before.Stime.Nano()
	b.ReportMetric(float64(took)/float64(b.N)/float64(things), "cpu-ns/"+unit)
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
			cpu := newProcessor()
			for b.Loop() {
				judge()
			}
			cpu.report(b, count, "node")
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
			cpu := newProcessor()
			for b.Loop() {
				score()
			}
			cpu.report(b, count, "node")
		})
	}
}

// BenchmarkReserve chooses cards on one node after the other, and gives them back.
func BenchmarkReserve(b *testing.B) {
	for _, count := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			bed := newBed(b)
			list, pod, state, ctx := fleet(b, bed, count), waiting(), framework.NewCycleState(), b.Context()
			reserve := func(node fwk.NodeInfo) {
				if status := bed.RunReservePluginsReserve(ctx, state, pod, node.Node().Name); !status.IsSuccess() {
					b.Fatal(status)
				}
				bed.RunReservePluginsUnreserve(ctx, state, pod, node.Node().Name)
			}
			for _, node := range list {
				reserve(node) // cards are read once
			}
			b.ReportAllocs()
			cpu := newProcessor()
			for i := 0; b.Loop(); i++ {
				reserve(list[i%len(list)])
			}
			cpu.report(b, 1, "pod")
		})
	}
}

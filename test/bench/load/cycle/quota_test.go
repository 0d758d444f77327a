package cycle

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// manyQuotas is how many namespaces have a quota of their own.
const manyQuotas = 1000

// shared is a placer whose pods are of many namespaces, with a quota for each or for none.
func shared(tb testing.TB, fleet load.Fleet, count int, pods ...*corev1.Pod) *placer {
	tb.Helper()
	nodes, err := fleet.NodeList()
	if err != nil {
		tb.Fatal(err)
	}
	world := &World{Nodes: nodes, Pods: pods}
	for i := range count {
		world.Quotas = append(world.Quotas, &names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("quota-", i)}, Spec: names.GPUQuotaSpec{
			Namespaces: []string{namespaceOf(i)}, Pool: fmt.Sprintf("pool-%03d", i%fleet.Pools), Min: 8, Max: ptr.To[int64](1000),
		}})
	}
	cluster, err := New(tb.Context(), world, shipped)
	if err != nil {
		tb.Fatal(err)
	}
	return &placer{Cluster: cluster, fleet: fleet, namespaces: manyQuotas}
}

func namespaceOf(i int) string { return fmt.Sprintf("team-%03d", i%manyQuotas) }

// BenchmarkQuotas shows what a thousand GPUQuotas cost an attempt to place a pod.
func BenchmarkQuotas(b *testing.B) {
	for _, nodes := range []int{5000, 20000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet := load.Fleet{Nodes: nodes, Pools: 4}
			spent := inTurns(b, shared(b, fleet, manyQuotas), shared(b, fleet, 0))
			b.ReportMetric(spent[0].CPUPerPod(), "with-cpu-us/pod")
			b.ReportMetric(spent[1].CPUPerPod(), "without-cpu-us/pod")
			b.ReportMetric(spent[0].MallocsPerPod(), "with-allocs/pod")
			b.ReportMetric(spent[1].MallocsPerPod(), "without-allocs/pod")
			b.ReportMetric(spent[0].CPUPerPod()/spent[1].CPUPerPod(), "cpu-ratio")
		})
	}
}

// BenchmarkReclaim shows what the attempt takes for which somebody leaves: all nodes are full of pods that borrow, and each pod that is
// tried is of another namespace, which is guaranteed its GPUs.
func BenchmarkReclaim(b *testing.B) {
	for _, nodes := range []int{5000, 20000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet := load.Fleet{Nodes: nodes, Pools: 4}
			p := shared(b, fleet, manyQuotas, borrowersOn(b, fleet)...)
			tried := 0
			var spent Cost
			for b.Loop() {
				pod := fleet.Pod(tried, load.GPUsPerNode)
				pod.Namespace, pod.UID, pod.Spec.PreemptionPolicy = namespaceOf(tried), types.UID(pod.Name), ptr.To(corev1.PreemptNever)
				tried++
				cost, err := Measure(func() (int, error) { return 1, p.Reclaim(b.Context(), pod) })
				if err != nil {
					b.Fatal(err)
				}
				spent.Add(cost)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(spent.CPUPerPod()/1000, "cpu-ms/attempt")
			b.ReportMetric(spent.Wall.Seconds()*1000/float64(spent.Pods), "ms/attempt")
		})
	}
}

// borrowersOn fill all nodes of a fleet.
func borrowersOn(tb testing.TB, fleet load.Fleet) []*corev1.Pod {
	tb.Helper()
	nodes, err := fleet.NodeList()
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]*corev1.Pod, len(nodes))
	for i, node := range nodes {
		out[i] = fleet.Pod(i, load.GPUsPerNode)
		out[i].Name = "borrows-" + node.Name
		out[i].Namespace, out[i].UID, out[i].Spec.NodeName = fmt.Sprint("borrower-", i%100), types.UID(out[i].Name), node.Name
	}
	return out
}

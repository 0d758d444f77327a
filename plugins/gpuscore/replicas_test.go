package gpuscore

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// replica is a pod of one GPU of the inference job "chat".
func replica() *st.PodWrapper {
	return asking(names.ResourceGPU, "1").Namespace("ns").Label(names.LabelJob, "chat").
		Label(names.LabelJobType, configv1.JobTypeInference)
}

// server is a node of eight GPUs.
func server(name, zone, rack string) *corev1.Node {
	node := offering(names.ResourceGPU, "8").Name(name)
	if zone != "" {
		node.Label(corev1.LabelTopologyZone, zone)
	}
	if rack != "" {
		node.Label(names.LabelRack, rack)
	}
	return node.Obj()
}

// on returns the pods as they run on a node.
func on(node string, pods ...*st.PodWrapper) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range pods {
		list = append(list, pod.Node(node).Obj())
	}
	return list
}

// withSnapshot is a plugin that sees the nodes and pods.
func withSnapshot(t testing.TB, pods []*corev1.Pod, nodes []*corev1.Node) (*Plugin, []fwk.NodeInfo) {
	t.Helper()
	snapshot := cache.NewSnapshot(pods, nodes)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := Factory(Dependencies{})(t.Context(), &configv1.GPUScoreArgs{Weights: only("utilization")}, handle)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), infos
}

func TestReplicasAreSpread(t *testing.T) {
	filler := func() *st.PodWrapper { return asking(names.ResourceGPU, "4") }
	tests := map[string]struct {
		nodes []*corev1.Node
		pods  [][]*corev1.Pod
		want  string
	}{
		"the first replica goes to the fullest node": {
			nodes: []*corev1.Node{server("a", "z", "r1"), server("b", "z", "r2")},
			pods:  [][]*corev1.Pod{on("b", filler())}, want: "b",
		},
		"the second goes to the other rack, though it is empty": {
			nodes: []*corev1.Node{server("a", "z", "r1"), server("b", "z", "r1"), server("c", "z", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica()), on("b", filler())}, want: "c",
		},
		"another zone is farther than another rack": {
			nodes: []*corev1.Node{server("a", "z1", "r1"), server("b", "z1", "r2"), server("c", "z2", "r1")},
			pods:  [][]*corev1.Pod{on("a", replica()), on("b", filler())}, want: "c",
		},
		"racks of two zones are two racks, though labelled alike": {
			nodes: []*corev1.Node{server("a", "z1", "r1"), server("b", "z2", "r1"), server("c", "z2", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica()), on("b", replica(), filler()), on("a", replica()), on("c", replica())}, want: "b",
		},
		"within a rack it goes to another node": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r1")},
			pods:  [][]*corev1.Pod{on("a", replica(), filler())}, want: "b",
		},
		"without labels it goes to another node": {
			nodes: []*corev1.Node{server("a", "", ""), server("b", "", "")},
			pods:  [][]*corev1.Pod{on("a", replica(), filler())}, want: "b",
		},
		"of two empty-handed racks the fuller node": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r2"), server("c", "", "r3")},
			pods:  [][]*corev1.Pod{on("a", replica()), on("c", filler())}, want: "c",
		},
		"when all racks have one, the fuller node again": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica()), on("b", replica(), filler())}, want: "b",
		},
		"a replica that is leaving does not count": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica().Terminating(), filler())}, want: "a",
		},
		"a replica of another revision does not count": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica().Label(appsv1.DefaultDeploymentUniqueLabelKey, "old"), filler())}, want: "a",
		},
		"a job of that name in another namespace does not count": {
			nodes: []*corev1.Node{server("a", "", "r1"), server("b", "", "r2")},
			pods:  [][]*corev1.Pod{on("a", replica().Namespace("other"), filler())}, want: "a",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for _, list := range tc.pods {
				pods = append(pods, list...)
			}
			plugin, infos := withSnapshot(t, pods, tc.nodes)
			if got := best(t, plugin, replica().Obj(), infos); got != tc.want {
				t.Errorf("the replica goes to %s, want %s", got, tc.want)
			}
		})
	}
}

// best returns the node with the highest score, and fails when there are two.
func best(t *testing.T, plugin *Plugin, pod *corev1.Pod, nodes []fwk.NodeInfo) string {
	t.Helper()
	cycle := newCycle(t, plugin, pod, nodes...)
	name, highest := "", int64(-1)
	for _, node := range nodes {
		got, status := plugin.Score(t.Context(), cycle, pod, node)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		switch {
		case got == highest:
			t.Errorf("%s and %s score %d", name, node.Node().Name, got)
		case got > highest:
			name, highest = node.Node().Name, got
		}
	}
	return name
}

// TestReplicasBeyondTheCandidatesCount: a full node is no candidate, but its replicas are in their rack.
func TestReplicasBeyondTheCandidatesCount(t *testing.T) {
	nodes := []*corev1.Node{server("full", "", "r1"), server("a", "", "r1"), server("b", "", "r2")}
	plugin, infos := withSnapshot(t, on("full", replica()), nodes)
	var candidates []fwk.NodeInfo
	for _, info := range infos {
		if info.Node().Name != "full" {
			candidates = append(candidates, info)
		}
	}
	if got := best(t, plugin, replica().Obj(), candidates); got != "b" {
		t.Errorf("the replica goes to %s, want the rack without one", got)
	}
}

// TestSpreadingWithoutPreScore is a profile that enables the plugin at score alone: it sees the node, not its rack.
func TestSpreadingWithoutPreScore(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{Weights: only("utilization")})
	for name, tc := range map[string]struct {
		node fwk.NodeInfo
		want int64
	}{
		"a node without a replica": {info(server("a", "", "")), 78},
		"a node with one":          {info(server("a", "", ""), replica().Obj()), 6},
	} {
		got, status := plugin.Score(t.Context(), framework.NewCycleState(), replica().Obj(), tc.node)
		if !status.IsSuccess() || got != tc.want {
			t.Errorf("%s: %d, %v, want %d", name, got, status, tc.want)
		}
	}
}

// BenchmarkSpreadReplicas is PreScore, which looks at every pod, and Score at every node; Score must not allocate.
func BenchmarkSpreadReplicas(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		var nodes []*corev1.Node
		var pods []*corev1.Pod
		for i := range count {
			name := fmt.Sprintf("n%d", i)
			nodes = append(nodes, server(name, fmt.Sprintf("z%d", i%3), fmt.Sprintf("r%d", i/16)))
			for range 7 {
				pods = append(pods, on(name, replica().Label(names.LabelJob, fmt.Sprintf("job-%d", i%100)))...)
			}
		}
		plugin, infos := withSnapshot(b, pods, nodes)
		pod := replica().Label(names.LabelJob, "job-1").Obj()
		cycle, ctx := framework.NewCycleState(), b.Context()
		b.Run(fmt.Sprintf("PreScore/nodes=%d", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if status := plugin.PreScore(ctx, cycle, pod, infos); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
		b.Run(fmt.Sprintf("Score/nodes=%d", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, node := range infos {
					if _, status := plugin.Score(ctx, cycle, pod, node); status != nil {
						b.Fatal(status)
					}
				}
			}
		})
	}
}

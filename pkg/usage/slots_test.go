package usage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestPartsOfGPUsAreCountedAsGPUs: eight parts of two T4, five of them in use, are two GPUs of which each could be in use.
func TestPartsOfGPUsAreCountedAsGPUs(t *testing.T) {
	node := fixture.Node("t4").GPUs(8, "Tesla-T4-SHARED").Label(names.LabelNVIDIAReplicas, "4").Obj()
	for used, want := range map[int]Count{0: {GPUs: 2, Free: 2}, 3: {GPUs: 2, Used: 1, Free: 1}, 5: {GPUs: 2, Used: 2}, 8: {GPUs: 2, Used: 2}} {
		cluster := &snapshot.Snapshot{Nodes: []corev1.Node{*node}}
		for range used {
			cluster.Pods = append(cluster.Pods, pod(t, "job", "t4", "1", names.ResourceGPU))
		}
		for i := range cluster.Pods {
			cluster.Pods[i].Name += string(rune('a' + i))
		}
		if got := Build(cluster, gpumetrics.Samples{}).Total.Count; got != want {
			t.Errorf("with %d parts in use: %+v, want %+v", used, got, want)
		}
	}
}

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestCardsTellWhoHasThem(t *testing.T) {
	chosen := func(name, devices string, phase corev1.PodPhase) *corev1.Pod {
		p := pod(name, "n1", "1", phase)
		p.Annotations = map[string]string{names.AnnotationGPUDevices: devices}
		p.Labels = map[string]string{names.LabelJob: "job-" + name}
		return &p
	}
	const inventory = `{"version":1,"gpus":[{"uuid":"GPU-a","index":0,"memoryMiB":81920,"health":"Healthy"},` +
		`{"uuid":"GPU-b","index":1,"memoryMiB":81920,"health":"Xid79"}]}`
	known := node("n1", "2", nil)
	known.Annotations = map[string]string{names.AnnotationInventory: inventory}
	derived := node("n1", "2", nil)
	onFirst := `{"version":1,"containers":{"main":[{"uuid":"GPU-a","index":0}],"init":[{"uuid":"GPU-a","index":0}]}}`
	holder := func(name string, memory int64) CardHolder {
		return CardHolder{Namespace: "team", Pod: name, Job: "job-" + name, MemoryMiB: memory}
	}
	tests := map[string]struct {
		node corev1.Node
		pods []*corev1.Pod
		want []Card
	}{
		"a pod whose containers take turns on a card has it once": {
			node: known, pods: []*corev1.Pod{chosen("a", onFirst, corev1.PodRunning)},
			want: []Card{
				{UUID: "GPU-a", MemoryMiB: 81920, Health: "Healthy", Holders: []CardHolder{holder("a", 0)}},
				{Index: 1, UUID: "GPU-b", MemoryMiB: 81920, Health: "Xid79"},
			},
		},
		"a pod that has ended holds nothing, nor does one without a choice": {
			node: known, pods: []*corev1.Pod{chosen("a", onFirst, corev1.PodSucceeded), chosen("b", "", corev1.PodRunning)},
			want: []Card{
				{UUID: "GPU-a", MemoryMiB: 81920, Health: "Healthy"},
				{Index: 1, UUID: "GPU-b", MemoryMiB: 81920, Health: "Xid79"},
			},
		},
		"several pods share a card, in the order of their names": {
			node: known, pods: []*corev1.Pod{
				chosen("b", `{"version":1,"containers":{"main":[{"uuid":"GPU-a","index":0,"memoryMiB":2048}]}}`, corev1.PodRunning),
				chosen("a", `{"version":1,"containers":{"main":[{"uuid":"GPU-a","index":0,"memoryMiB":1024}]}}`, corev1.PodPending),
			},
			want: []Card{
				{UUID: "GPU-a", MemoryMiB: 81920, Health: "Healthy", Holders: []CardHolder{holder("a", 1024), holder("b", 2048)}},
				{Index: 1, UUID: "GPU-b", MemoryMiB: 81920, Health: "Xid79"},
			},
		},
		"cards that are only counted have no UUID, and are held by number": {
			node: derived, pods: []*corev1.Pod{
				chosen("a", `{"version":1,"containers":{"main":[{"uuid":"index-1","index":1}]}}`, corev1.PodRunning),
			},
			want: []Card{{Health: "Healthy"}, {Index: 1, Health: "Healthy", Holders: []CardHolder{holder("a", 0)}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, BuildCards(&tc.node, tc.pods)); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}

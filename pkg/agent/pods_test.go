package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhatIsKeptOfAPod: its devices and that our scheduler decided about it, and nothing large beside.
func TestWhatIsKeptOfAPod(t *testing.T) {
	p := &Pods{known: map[types.UID]binding.Pod{}, changed: make(chan struct{})}
	for uid, annotations := range map[string]map[string]string{
		"ours":      {names.AnnotationGPUDevices: "devices", names.AnnotationDecision: "1/2", "notes": "long"},
		"counted":   {names.AnnotationDecision: "1/2"},
		"another's": nil,
	} {
		kept, err := trimPod(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Annotations: annotations}})
		if err != nil {
			t.Fatal(err)
		}
		if pod := kept.(*metav1.PartialObjectMetadata); pod.Annotations["notes"] != "" {
			t.Errorf("kept is %v", pod.Annotations)
		}
		p.setPod(kept)
	}
	want := map[types.UID]binding.Pod{
		"ours": {Name: "ours", Assignment: "devices", Decided: true}, "counted": {Name: "counted", Decided: true}, "another's": {Name: "another's"},
	}
	known, _ := p.KnownPods()
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

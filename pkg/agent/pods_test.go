package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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

// TestAStaticPodIsKnownByItsMirror under the UID that kubelet and the runtime use. Whoever makes a pod that pretends to be the mirror of another does
// not change what is known of that one.
func TestAStaticPodIsKnownByItsMirror(t *testing.T) {
	p := &Pods{known: map[types.UID]binding.Pod{}, changed: make(chan struct{})}
	ofPod := func(uid, mirrorOf string) *metav1.PartialObjectMetadata {
		pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid}}
		if mirrorOf != "" {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrorOf}
		}
		kept, err := trimPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*metav1.PartialObjectMetadata)
	}
	p.setPod(ofPod("late", "victim"))
	p.setPod(ofPod("victim", ""))
	p.setPod(ofPod("liar", "victim"))
	p.setPod(ofPod("mirror", "of-a-file"))
	known, _ := p.KnownPods()
	if static := known["of-a-file"]; !static.Static || static.Name != "mirror" {
		t.Errorf("the static pod is %+v", static)
	}
	if known["victim"] != (binding.Pod{Name: "victim"}) {
		t.Errorf("the pod of which others pretend to be the mirror is %+v", known["victim"])
	}
	p.deletePod(ofPod("liar", "victim"))
	p.deletePod(ofPod("mirror", "of-a-file"))
	known, _ = p.KnownPods()
	if _, there := known["of-a-file"]; there || known["victim"].Name != "victim" {
		t.Errorf("of those that are gone remains %v", known)
	}
}

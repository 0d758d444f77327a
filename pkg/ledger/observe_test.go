package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func stamp(seconds int) metav1.Time { return metav1.NewTime(at(seconds)) }

// bound is a pod with two cards, created at 0 and bound at 10.
func bound(edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := fixture.Pod("train-0").GPUs(2).Obj()
	pod.Labels = map[string]string{names.LabelJob: "train", names.LabelJobType: "training"}
	pod.UID, pod.Spec.NodeName, pod.CreationTimestamp = "u", "n", stamp(0)
	pod.Annotations = map[string]string{names.AnnotationGPUDevices: `{"version":1,"containers":{"main":[{"uuid":"GPU-b","index":1},{"uuid":"GPU-a","index":0}]}}`}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: stamp(10)}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// asking is a request of one resource alone.
func asking(name corev1.ResourceName, count string) corev1.ResourceRequirements {
	list := corev1.ResourceList{name: resource.MustParse(count)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func ended(phase corev1.PodPhase, finished, code int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: stamp(finished), ExitCode: int32(code)}}}}
	}
}

func deletion(asked, grace int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		end, seconds := stamp(asked+grace), int64(grace)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &seconds
	}
}

func disrupted(when int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: stamp(when)})
	}
}

// TestWhenAPodHolds: from its binding to its end, and what cannot be known is between two moments.
func TestWhenAPodHolds(t *testing.T) {
	live := func(pod *corev1.Pod, gone bool, when int) Sighting {
		return Sighting{Pod: pod, Gone: gone, Since: at(when), At: at(when)}
	}
	tests := map[string]struct {
		sights          []Sighting
		from, to, until int // seconds; to -1 while it is held
		outcome         string
		code            int32
	}{
		"it runs":           {sights: []Sighting{live(bound(), false, 11)}, from: 10, to: -1},
		"it is being ended": {sights: []Sighting{live(bound(deletion(20, 30)), false, 21)}, from: 10, to: -1},
		"it succeeded":      {sights: []Sighting{live(bound(ended(corev1.PodSucceeded, 50, 0)), false, 52)}, from: 10, to: 50, outcome: "Succeeded"},
		"it failed":         {sights: []Sighting{live(bound(ended(corev1.PodFailed, 50, 3)), false, 52)}, from: 10, to: 50, outcome: "Failed", code: 3},
		"it ended, and then it was deleted": {from: 10, to: 50, outcome: "Succeeded", sights: []Sighting{
			live(bound(ended(corev1.PodSucceeded, 50, 0)), false, 52), live(bound(ended(corev1.PodSucceeded, 50, 0)), true, 90)}},
		"it ended while nobody watched, and is still there": {from: 10, to: 50, outcome: "Succeeded",
			sights: []Sighting{{Pod: bound(ended(corev1.PodSucceeded, 50, 0)), Since: at(20), At: at(500)}}},
		"it was seen to go":                                  {sights: []Sighting{live(bound(), true, 70)}, from: 10, to: 70, outcome: "Deleted"},
		"its containers had ended when it went":              {sights: []Sighting{live(bound(ended(corev1.PodRunning, 66, 0)), true, 70)}, from: 10, to: 66, outcome: "Deleted"},
		"it went while nobody watched":                       {sights: []Sighting{{Pod: bound(), Gone: true, Since: at(30), At: at(90)}}, from: 10, to: 30, until: 90, outcome: "Deleted"},
		"it went then, and when that was asked for is known": {sights: []Sighting{{Pod: bound(deletion(60, 30)), Gone: true, Since: at(30), At: at(90)}}, from: 10, to: 60, until: 90, outcome: "Deleted"},
		"it went then, within a second":                      {sights: []Sighting{{Pod: bound(deletion(89, 0)), Gone: true, Since: at(30), At: at(90)}}, from: 10, to: 90, outcome: "Deleted"},
		"its node died":                                      {sights: []Sighting{live(bound(disrupted(80)), false, 85)}, from: 10, to: 80, outcome: "Failed"},
		"its node died while nobody watched":                 {sights: []Sighting{{Pod: bound(disrupted(80)), Since: at(30), At: at(500)}}, from: 10, to: 80, outcome: "Failed"},
		"it failed, and nothing says when": {sights: []Sighting{{Pod: bound(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), Since: at(30), At: at(90)}},
			from: 10, to: 30, until: 90, outcome: "Failed"},
		"the node's clock is ahead":               {sights: []Sighting{live(bound(ended(corev1.PodSucceeded, 5000, 0)), false, 52)}, from: 10, to: 52, outcome: "Succeeded"},
		"the node's clock is behind":              {sights: []Sighting{live(bound(ended(corev1.PodSucceeded, 3, 0)), false, 52)}, from: 10, to: 10, outcome: "Succeeded"},
		"our clock is behind, and it was deleted": {sights: []Sighting{live(bound(deletion(75, 0)), true, 70)}, from: 10, to: 75, outcome: "Deleted"},
		"a deletion far ahead of our clock":       {sights: []Sighting{live(bound(deletion(7500, 0)), true, 70)}, from: 10, to: 70, outcome: "Deleted"},
		"it was created on its node":              {sights: []Sighting{live(bound(func(p *corev1.Pod) { p.Status.Conditions = nil }), false, 11)}, from: 0, to: -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var held *Holding
			for _, sight := range tc.sights {
				held = ObservePod(held, sight, nil)
			}
			want := &Holding{From: at(tc.from), Outcome: tc.outcome, ExitCode: tc.code}
			if tc.to >= 0 {
				want.To = at(tc.to)
			}
			if tc.until > 0 {
				want.Until = at(tc.until)
			}
			got := &Holding{From: held.From, To: held.To, Until: held.Until, Outcome: held.Outcome, ExitCode: held.ExitCode}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("holding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAPodHolds(t *testing.T) {
	shared := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = asking(names.ResourceSharedGPU, "1")
		p.Annotations[names.AnnotationGPUDevices] = `{"version":1,"containers":{"main":[{"uuid":"n-0","index":0,"memoryMiB":250}]}}`
	}
	slice := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = asking("nvidia.com/mig-3g.20gb", "2")
		p.Annotations = nil
	}
	node := fixture.Node("n").GPUs(4, "A100-80G").Label(names.LabelPool, "big").
		Annotate(names.AnnotationInventory, fixture.Cards("n", 1000, 1000, 1000, 1000).Annotation(t)).Obj()
	tests := map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want *Holding
	}{
		"two whole cards": {pod: bound(), node: node, want: &Holding{Pool: "big", GPUType: "A100-80G", Milli: 2000,
			GPUs: []GPU{{UUID: "GPU-a"}, {UUID: "GPU-b", Index: 1}}}},
		"a part of one": {pod: bound(shared), node: node, want: &Holding{Pool: "big", GPUType: "A100-80G", Milli: 250,
			GPUs: []GPU{{UUID: "n-0", MemoryMiB: 250}}}},
		"a part of one of which nothing is known": {pod: bound(shared), want: &Holding{Pool: "default", Milli: 1000, GPUs: []GPU{{UUID: "n-0", MemoryMiB: 250}}}},
		"cards that another scheduler chose":      {pod: bound(func(p *corev1.Pod) { p.Annotations = nil }), want: &Holding{Pool: "default", Milli: 2000}},
		"slices":                                  {pod: bound(slice), want: &Holding{Pool: "default", Milli: 857}},
		"all slices of a card": {pod: bound(slice, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = asking("nvidia.com/mig-1g.5gb", "7")
		}), want: &Holding{Pool: "default", Milli: 1000}},
		"no GPU":  {pod: bound(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })},
		"no node": {pod: bound(func(p *corev1.Pod) { p.Spec.NodeName = "" })},
		"more than there can be": {pod: bound(func(p *corev1.Pod) {
			p.Annotations = nil
			p.Spec.Containers[0].Resources = asking(names.ResourceGPU, "9223372036854775807")
		}), want: &Holding{Pool: "default", Milli: gpu.MaxGPUs * 1000}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ObservePod(nil, Sighting{Pod: tc.pod, At: at(11), Since: at(11)}, tc.node)
			if got != nil {
				got = &Holding{Pool: got.Pool, GPUType: got.GPUType, Milli: got.Milli, GPUs: got.GPUs}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("holding (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnUnseenEndIsMarked: who is gone after a gap held until the gap began, and may have until it ended.
func TestAnUnseenEndIsMarked(t *testing.T) {
	held := ObservePod(nil, Sighting{Pod: bound(), At: at(11), Since: at(11)}, nil)
	gone := EndVanished(held, at(60), at(300))
	if !gone.To.Equal(at(60)) || !gone.Until.Equal(at(300)) || held.HasEnded() {
		t.Errorf("held until %v, perhaps %v; before it was %v", gone.To, gone.Until, held.To)
	}
	if early := EndVanished(held, at(5), at(300)); !early.To.Equal(at(10)) {
		t.Errorf("it ends at %v, before it was bound", early.To)
	}
}

// TestAShareIsWeighedAgain once its node is known: pods and nodes are followed apart, and a pod may be heard of first.
func TestAShareIsWeighedAgain(t *testing.T) {
	share := bound(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = asking(names.ResourceSharedGPU, "1")
		p.Annotations[names.AnnotationGPUDevices] = `{"version":1,"containers":{"main":[{"uuid":"n-0","index":0,"memoryMiB":250}]}}`
	})
	early := fixture.Node("n").GPUs(4, "A100-80G").Obj()
	node := fixture.Node("n").GPUs(4, "A100-80G").Annotate(names.AnnotationInventory, fixture.Cards("n", 1000, 1000, 1000, 1000).Annotation(t)).Obj()
	var held *Holding
	for i, step := range []struct {
		node *corev1.Node
		want int64
	}{{nil, 1000}, {early, 1000}, {node, 250}, {nil, 250}, {node, 250}} {
		held = ObservePod(held, Sighting{Pod: share, At: at(11 + i), Since: at(11 + i)}, step.node)
		if held.Milli != step.want {
			t.Errorf("at sight %d it holds %d thousandths of a GPU, want %d", i, held.Milli, step.want)
		}
	}
	whole := ObservePod(nil, Sighting{Pod: bound(), At: at(11), Since: at(11)}, nil)
	if again := ObservePod(whole, Sighting{Pod: bound(), At: at(12), Since: at(12)}, node); again.Milli != 2000 {
		t.Errorf("two whole cards are %d thousandths of a GPU", again.Milli)
	}
}

// TestAPartOfAGPUIsChargedAsThat: four pods on a T4 with four replicas are charged one GPU, and not four.
func TestAPartOfAGPUIsChargedAsThat(t *testing.T) {
	node := fixture.Node("n").GPUs(8, "Tesla-T4-SHARED").Label(names.LabelNVIDIAReplicas, "4").Label(names.LabelNVIDIASharing, "time-slicing").Obj()
	chosen := func(annotation string) *corev1.Pod {
		return bound(func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = asking(names.ResourceGPU, "1")
			pod.Annotations = map[string]string{}
			if annotation != "" {
				pod.Annotations[names.AnnotationGPUDevices] = annotation
			}
		})
	}
	derived := `{"version":1,"containers":{"main":[{"uuid":"index-3","index":3}]}}`
	reported := `{"version":1,"containers":{"main":[{"uuid":"GPU-a","index":0}]}}`
	seen := func(pod *corev1.Pod) Sighting { return Sighting{Pod: pod, Since: at(12), At: at(12)} }
	for name, tc := range map[string]struct {
		annotation string
		want       int64
	}{
		"a slot": {derived, 250}, "of another scheduler": {"", 250}, "a card that an agent reported": {reported, 1000},
	} {
		if got := ObservePod(nil, seen(chosen(tc.annotation)), node).Milli; got != tc.want {
			t.Errorf("%s: %d thousandths, want %d", name, got, tc.want)
		}
	}
	before := ObservePod(nil, seen(chosen(derived)), nil)
	if after := ObservePod(before, seen(chosen(derived)), node); before.Milli != 1000 || after.Milli != 250 {
		t.Errorf("a slot weighs %d before the node is known and %d after, want 1000 and 250", before.Milli, after.Milli)
	}
}

package gpu

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const twoSlices = `{"version":1,"slices":[` +
	`{"uuid":"MIG-b","profile":"1g.10gb+me","card":"GPU-1","gpu":1,"health":"Xid79","since":"2026-11-01T12:00:00Z","pod":"0b5c-7"},` +
	`{"uuid":"MIG-a","profile":"3g.40gb","card":"GPU-0","gpu":0,"memoryMiB":40192,"health":"Healthy","later":"field"}]}`

func TestParseSlices(t *testing.T) {
	want := []Slice{
		{UUID: "MIG-a", Profile: "3g.40gb", ParentUUID: "GPU-0", MemoryMiB: 40192, Health: Healthy},
		{UUID: "MIG-b", Profile: "1g.10gb+me", ParentUUID: "GPU-1", GPU: 1, Health: "Xid79", Since: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Pod: "0b5c-7"},
	}
	got, err := ParseSlices(twoSlices)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, slices (-want +got):\n%s", err, diff)
	}
	text, err := EncodeSlices(got)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSlices(text); err != nil || cmp.Diff(want, again) != "" {
		t.Errorf("written and read again they are %+v, error %v", again, err)
	}
	if text, err := EncodeSlices(nil); err != nil || text != `{"version":1,"slices":[]}` {
		t.Errorf("no slices are %s, error %v", text, err)
	}
	const one = `{"version":1,"slices":[{"uuid":"a","profile":"1g","card":"c","gpu":0,"health":"Healthy"}]}`
	for what, text := range map[string]string{
		"nothing": "", "another version": strings.Replace(one, `:1,"s`, `:2,"s`, 1), "no card": strings.Replace(one, `"card":"c",`, "", 1),
		"a profile of a stranger": strings.Replace(one, "1g", "1g; rm", 1), "no health": strings.Replace(one, "Healthy", "", 1),
		"a pod that is no UID": strings.Replace(one, `"gpu"`, `"pod":"a/b","gpu"`, 1), "much": strings.Repeat(" ", maxSlicesSize) + one,
		"a slice twice": strings.Replace(one, "]", `,{"uuid":"a","profile":"1g","card":"c","gpu":0,"health":"Healthy"}]`, 1),
	} {
		if got, err := ParseSlices(text); err == nil {
			t.Errorf("%s: read as %+v", what, got)
		}
	}
}

// TestSlicesUnderAPod: a pod without a UID, as one that was never created, has none.
func TestSlicesUnderAPod(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationSlices: twoSlices}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "0b5c-7"}}
	if got := SlicesUnder(node, pod.UID, nil); len(got) != 1 || got[0].UUID != "MIG-b" {
		t.Errorf("got %+v", got)
	}
	if broken := BrokenGPUsUnder(node, pod); len(broken) != 1 || broken[0].UUID != "GPU-1" || broken[0].Index != 1 || broken[0].Since.IsZero() {
		t.Errorf("broken under the pod are %+v, want the card of its slice", broken)
	}
	if broken := BrokenGPUsUnder(node, &corev1.Pod{}); len(broken) != 0 || len(SlicesUnder(node, "", nil)) != 0 {
		t.Errorf("a pod that is none has %+v", broken)
	}
	if broken := BrokenGPUsOn(node); len(broken) != 1 {
		t.Errorf("broken on the node are %+v, want one card", broken)
	}
}

// TestSlicesOfAPodThatHasNotStarted are those that were chosen for it, until its node says which it has got.
func TestSlicesOfAPodThatHasNotStarted(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationSlices: twoSlices}}}
	chosen := func(uid, slice string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Annotations: map[string]string{
			names.AnnotationGPUDevices: `{"version":1,"slices":{"main":[{"uuid":"` + slice + `","profile":"3g.40gb","card":"GPU-0","gpu":0}]}}`,
		}}}
	}
	waits := chosen("new", "MIG-a")
	want := []Slice{{UUID: "MIG-a", Profile: "3g.40gb", ParentUUID: "GPU-0", MemoryMiB: 40192, Health: Healthy, Pod: "new"}}
	if diff := cmp.Diff(want, SlicesUnder(node, "new", ChosenSlices(waits))); diff != "" {
		t.Errorf("slices of a pod that waits (-want +got):\n%s", diff)
	}
	want[0].MemoryMiB, want[0].Health = 0, ""
	if diff := cmp.Diff(want, SlicesUnder(&corev1.Node{}, "new", ChosenSlices(waits))); diff != "" {
		t.Errorf("slices on a node that tells nothing (-want +got):\n%s", diff)
	}
	runs := chosen("0b5c-7", "MIG-a")
	if got := SlicesUnder(node, runs.UID, ChosenSlices(runs)); len(got) != 1 || got[0].UUID != "MIG-b" {
		t.Errorf("a pod that has got another slice has %+v", got)
	}
	ended := chosen("gone", "MIG-a")
	ended.Status.Phase = corev1.PodSucceeded
	for what, tc := range map[string]struct {
		pod  *corev1.Pod
		want types.UID
	}{
		"one that waits": {waits, "new"}, "one that has got another": {runs, ""}, "one that has ended": {ended, ""},
		"one that was promised what another one has": {chosen("late", "MIG-b"), ""},
	} {
		got := HeldSlices(node, []*corev1.Pod{tc.pod})
		if len(got) != 2 || got[0].Pod != tc.want || got[1].Pod != "0b5c-7" {
			t.Errorf("%s: held are %+v", what, got)
		}
	}
	if got := HeldSlices(&corev1.Node{}, []*corev1.Pod{waits}); got != nil {
		t.Errorf("a node that tells nothing has %+v", got)
	}
}

// TestBrokenCardsInMIGMode are told by the inventory, also where nobody has cut them.
func TestBrokenCardsInMIGMode(t *testing.T) {
	inv := slicedInventory("S", "")
	inv.Sliced[1].Health = "Xid79"
	text, err := inv.Encode()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationInventory: text}}}
	if got := BrokenGPUsOn(node); len(got) != 1 || got[0].UUID != "GPU-1" {
		t.Errorf("broken are %+v, want the second card", got)
	}
}

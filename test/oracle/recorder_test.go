package oracle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"g8s.host/gpu-scheduler/test/fixture"
)

func newRecorder() *Recorder {
	return &Recorder{cancel: func() {}, last: map[types.UID]int64{}, alive: map[types.UID]int64{}}
}

func at(revision string, pod *corev1.Pod) *corev1.Pod {
	pod.ResourceVersion = revision
	return pod
}

// TestARecordingIsMissingWhatAListShows is what keeps a history with a gap from passing as a good one.
func TestARecordingIsMissingWhatAListShows(t *testing.T) {
	const revision = 20 // of the list
	pods := stream{name: "pod", is: func(e *Event) bool { return e.Pod != nil }}
	tests := map[string]struct {
		record func(*Recorder)
		listed []metav1.Object
		want   string
	}{
		"all is recorded": {
			record: func(r *Recorder) { r.record(watch.Added, at("7", wholePod("a")), 7) },
			listed: []metav1.Object{at("7", wholePod("a"))},
		},
		"the recording is ahead": {
			record: func(r *Recorder) {
				r.record(watch.Added, at("7", wholePod("a")), 7)
				r.record(watch.Modified, at("21", wholePod("a")), 21)
				r.record(watch.Added, at("22", wholePod("b")), 22)
			},
			listed: []metav1.Object{at("7", wholePod("a"))},
		},
		"a pod of the list was deleted afterwards": {
			record: func(r *Recorder) {
				r.record(watch.Added, at("7", wholePod("a")), 7)
				r.record(watch.Deleted, at("21", wholePod("a")), 21)
			},
			listed: []metav1.Object{at("7", wholePod("a"))},
		},
		"a pod was never seen": {
			record: func(*Recorder) {},
			listed: []metav1.Object{at("7", wholePod("a"))},
			want:   "a change of pod a",
		},
		"a change was not seen": {
			record: func(r *Recorder) { r.record(watch.Added, at("7", wholePod("a")), 7) },
			listed: []metav1.Object{at("8", wholePod("a"))},
			want:   "a change of pod a",
		},
		"a deletion was not seen": {
			record: func(r *Recorder) { r.record(watch.Added, at("7", wholePod("a")), 7) },
			want:   "the end of pod a",
		},
		"nodes are not looked for among the pods": {
			record: func(r *Recorder) { r.record(watch.Added, fixture.Node("n").Obj(), 7) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRecorder()
			tc.record(r)
			if diff := cmp.Diff(tc.want, r.missing(pods, tc.listed, revision)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABrokenWatchFailsTheRecording(t *testing.T) {
	r := newRecorder()
	r.record(watch.Added, at("7", wholePod("a")), 7)
	watcher := watch.NewFake()
	go func() {
		watcher.Modify(at("8", wholePod("a")))
		watcher.Error(&metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version"})
		watcher.Stop()
	}()
	r.copy(t.Context(), watcher)
	if len(r.events) != 2 {
		t.Errorf("got %d events, want 2", len(r.events))
	}
	for _, want := range []string{"too old resource version", "the watch ended"} {
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("got error %v, want one with %q", r.err, want)
		}
	}
}

func TestHistoryIsInTheOrderOfTheStore(t *testing.T) {
	r := newRecorder()
	r.record(watch.Added, at("9", wholePod("a")), 9)
	r.record(watch.Added, at("12", wholePod("b")), 12)
	r.record(watch.Modified, fixture.Node("n").Obj(), 11) // another stream, which came later
	var got []int64
	for _, event := range r.History() {
		got = append(got, event.Revision)
	}
	if diff := cmp.Diff([]int64{9, 11, 12}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

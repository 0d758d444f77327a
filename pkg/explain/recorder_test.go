package explain

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func podNamed(name, uid, job string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID(uid), Labels: map[string]string{names.LabelJob: job},
	}}
}

func refused(at time.Time, text string) Attempt {
	return Attempt{Time: at, Result: Unschedulable, Nodes: 3, Reasons: []Reason{{Text: text, Nodes: 3}}}
}

func TestTheLastAttemptIsKept(t *testing.T) {
	recorder := NewRecorder(DefaultLimits)
	pod := podNamed("a", "1", "train")
	recorder.Record(pod, refused(noon, "full"))
	recorder.Record(pod, Attempt{Time: noon.Add(time.Minute), Result: Placed, Node: "n1"})
	got, _ := recorder.Pod("team", "a")
	want := Record{
		Namespace: "team", Name: "a", UID: "1", Job: "train", Attempts: 2, Explained: 2, First: noon,
		Last: Attempt{Time: noon.Add(time.Minute), Result: Placed, Node: "n1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestAnAttemptThatIsOnlyCountedKeepsWhatIsKnown(t *testing.T) {
	unknown := Attempt{Time: noon.Add(time.Minute), Result: Unschedulable, Nodes: 4}
	tests := map[string]struct {
		before, counted []Attempt
		want            Record
	}{
		"of a pod that is new, little is known": {want: Record{Attempts: 1, First: unknown.Time, Last: unknown}},
		"of one that was only counted before, no more": {
			counted: []Attempt{{Time: noon, Result: Unschedulable, Nodes: 3}},
			want:    Record{Attempts: 2, First: noon, Last: unknown},
		},
		"of one that waits, what was found out before": {
			before: []Attempt{refused(noon, "full")},
			want:   Record{Attempts: 2, Explained: 1, First: noon, Last: refused(noon, "full")},
		},
		"one whose binding failed is not placed any more": {
			before: []Attempt{{Time: noon, Result: Placed, Node: "n1"}},
			want:   Record{Attempts: 2, First: noon, Last: unknown},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			recorder, pod := NewRecorder(DefaultLimits), podNamed("a", "1", "train")
			for _, attempt := range tc.before {
				recorder.Record(pod, attempt)
			}
			for _, attempt := range append(tc.counted, unknown) {
				recorder.CountAttempt(pod, attempt)
			}
			got, _ := recorder.Pod("team", "a")
			tc.want.Namespace, tc.want.Name, tc.want.UID, tc.want.Job = "team", "a", "1", "train"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookingIntoAPodThatWasOnlyCountedExplainsIt(t *testing.T) {
	recorder, pod := NewRecorder(DefaultLimits), podNamed("a", "1", "train")
	recorder.CountAttempt(pod, Attempt{Time: noon, Result: Unschedulable, Nodes: 3})
	recorder.Record(pod, refused(noon, "full"))
	if got, _ := recorder.Pod("team", "a"); got.Explained != 2 || got.Attempts != 2 {
		t.Errorf("attempt %d of %d is explained, want the second of 2", got.Explained, got.Attempts)
	}
}

func TestRecordsAreFoundByJob(t *testing.T) {
	recorder := NewRecorder(DefaultLimits)
	recorder.Record(podNamed("b", "2", "train"), refused(noon, "full"))
	recorder.Record(podNamed("a", "1", "train"), refused(noon, "full"))
	recorder.Record(podNamed("c", "3", "serve"), refused(noon, "full"))
	recorder.Record(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a", UID: "4"}}, refused(noon, "full"))
	for job, want := range map[string][]string{"train": {"a", "b"}, "serve": {"c"}, "": {"a", "b", "c"}, "none": nil} {
		var got []string
		for _, record := range recorder.Pods("team", job) {
			got = append(got, record.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pods of job %q (-want +got):\n%s", job, diff)
		}
	}
}

func TestANameBelongsToTheNewestPod(t *testing.T) {
	recorder := NewRecorder(DefaultLimits)
	recorder.Record(podNamed("a", "old", ""), refused(noon, "full"))
	recorder.Record(podNamed("a", "new", ""), refused(noon, "no node"))
	recorder.Forget("old")
	got, ok := recorder.Pod("team", "a")
	if !ok || got.UID != "new" {
		t.Errorf("the name finds %q, want the new pod", got.UID)
	}
	recorder.Forget("new")
	if _, ok := recorder.Pod("team", "a"); ok {
		t.Error("a deleted pod is still found")
	}
	if pods, bytes := recorder.Len(); pods != 0 || bytes != 0 {
		t.Errorf("%d pods and %d bytes are left", pods, bytes)
	}
}

func TestLimitsHold(t *testing.T) {
	tests := map[string]struct {
		limits Limits
		want   int
	}{
		"the number of pods": {limits: Limits{Pods: 7, Bytes: 1 << 20}, want: 7},
		"the bytes":          {limits: Limits{Pods: 100, Bytes: 4000}, want: 11},
		"one record larger than all that is allowed": {limits: Limits{Pods: 100, Bytes: 1}, want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := NewRecorder(tc.limits)
			first := podNamed("pod-0", "uid-0", "")
			for i := range 50 {
				recorder.Record(podNamed(fmt.Sprintf("pod-%d", i), fmt.Sprintf("uid-%d", i), ""), refused(noon, "full"))
				if tc.want > 1 {
					recorder.Record(first, refused(noon, "full")) // what is written again stays
				}
			}
			pods, bytes := recorder.Len()
			if pods != tc.want {
				t.Errorf("%d pods are kept, want %d", pods, tc.want)
			}
			if tc.want > 1 && bytes > tc.limits.Bytes {
				t.Errorf("%d bytes are kept, want at most %d", bytes, tc.limits.Bytes)
			}
			if _, ok := recorder.Pod("team", "pod-0"); ok != (tc.want > 1) {
				t.Errorf("the pod written all the time is kept: %v", ok)
			}
		})
	}
}

func TestListsAreCut(t *testing.T) {
	recorder := NewRecorder(DefaultLimits)
	recorder.Record(podNamed("a", "1", ""), Attempt{
		Reasons: make([]Reason, 100), NearMisses: make([]NearMiss, 100), Candidates: make([]Candidate, 100),
	})
	got, _ := recorder.Pod("team", "a")
	want := Attempt{
		Reasons: make([]Reason, MaxReasons), NearMisses: make([]NearMiss, MaxNearMisses), Candidates: make([]Candidate, MaxCandidates),
	}
	if diff := cmp.Diff(want, got.Last); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var recorder *Recorder
	recorder.Record(podNamed("a", "1", ""), refused(noon, "full"))
	recorder.Forget("1")
	if _, ok := recorder.Pod("team", "a"); ok || recorder.Pods("team", "") != nil {
		t.Error("a nil recorder knows a pod")
	}
}

func TestManyGoroutines(t *testing.T) {
	recorder := NewRecorder(Limits{Pods: 50, Bytes: 1 << 20})
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range 200 {
				uid := fmt.Sprint(i % 100)
				recorder.Record(podNamed(uid, uid, "job"), refused(noon, "full"))
				recorder.Pods("team", "job")
				if worker == 0 {
					recorder.Forget(types.UID(uid))
				}
			}
		})
	}
	wait.Wait()
	if pods, _ := recorder.Len(); pods > 50 {
		t.Errorf("%d pods are kept, want at most 50", pods)
	}
}

// BenchmarkRecord is the cost of one record in a full recorder.
func BenchmarkRecord(b *testing.B) {
	recorder := NewRecorder(DefaultLimits)
	pods := make([]*corev1.Pod, 2*DefaultLimits.Pods)
	for i := range pods {
		pods[i] = podNamed(fmt.Sprintf("pod-%d", i), fmt.Sprintf("uid-%d", i), "job")
	}
	reasons := []Reason{{Text: "node(s) had too few free GPUs", Nodes: 30}, {Text: "Insufficient cpu", Nodes: 4}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		recorder.Record(pods[i%len(pods)], Attempt{Time: noon, Result: Unschedulable, Reasons: reasons})
	}
}

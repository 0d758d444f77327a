package recorder

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// books are a recorder's, on a file that a restart opens again.
type books struct {
	t    *testing.T
	path string
	*Recorder
	pods *podBook
	jobs *jobBook
}

func newBooks(t *testing.T) *books {
	b := &books{t: t, path: filepath.Join(t.TempDir(), "ledger.db")}
	b.restart()
	t.Cleanup(func() { _ = b.Store.Close() })
	return b
}

func (b *books) restart() {
	b.t.Helper()
	if b.Recorder != nil {
		_ = b.Store.Close()
	}
	s, err := store.Open(b.path, noon)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Recorder = &Recorder{Store: s, Log: slog.New(slog.DiscardHandler)}
	b.nodes.ready = make(chan struct{})
	b.pods, b.jobs = &podBook{recorder: b.Recorder}, &jobBook{recorder: b.Recorder, of: followJobs}
	b.check(b.nodes.HandleList([]metav1.Object{fixture.Node("n").GPUs(8, "A").Obj()}, time.Time{}, snapshot.Point{}))
}

func (b *books) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func pod(uid string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := fixture.Pod("p-"+uid).GPUs(1).Label(names.LabelJob, "train").Label(names.LabelJobType, "training").Obj()
	p.Namespace, p.UID, p.Spec.NodeName, p.CreationTimestamp = "team", types.UID(uid), "n", metav1.NewTime(at(0))
	for _, e := range edit {
		e(p)
	}
	return p
}

func succeeded(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at(seconds))}}}}
	}
}

func job(uid string, edit ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod("x").Namespace, Name: "train", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(at(0)),
		Labels:      map[string]string{names.LabelJob: "train", names.LabelJobType: "training"},
		Annotations: map[string]string{names.AnnotationUser: "ada"},
	}}
	for _, e := range edit {
		e(j)
	}
	return j
}

func done(seconds int) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(seconds))}}
	}
}

// changes happen at once, at a second.
func changes(second int, gone bool, objects ...metav1.Object) ([]snapshot.Change, snapshot.Point) {
	var out []snapshot.Change
	for _, o := range objects {
		out = append(out, snapshot.Change{Object: o, Gone: gone, Since: at(second), At: at(second)})
	}
	return out, snapshot.Point{Revision: "1", Time: at(second)}
}

func (b *books) told(second int, gone bool, objects ...metav1.Object) {
	b.t.Helper()
	list, point := changes(second, gone, objects...)
	var book snapshot.HistoryHandler = b.pods
	if _, ok := objects[0].(*batchv1.Job); ok {
		book = b.jobs
	}
	b.check(book.HandleChanges(list, point))
}

// hours are those of the users, in seconds of a GPU, and how many pods.
func (b *books) sums() map[string][3]float64 {
	b.t.Helper()
	got, err := b.Store.Usage(store.UsageQuery{By: []ledger.Key{ledger.ByUser}, From: at(0), To: at(1000), Most: 9})
	b.check(err)
	out := map[string][3]float64{}
	for _, sum := range got.Items {
		out[sum.Keys[ledger.ByUser]] = [3]float64{sum.GPUHours * 3600, sum.UncertainGPUHours * 3600, float64(sum.Pods)}
	}
	return out
}

// TestWhatIsRecorded kills the recorder between any two steps too: the sums are the same.
func TestWhatIsRecorded(t *testing.T) {
	type step func(*books)
	jobSeen := func(b *books) { b.told(0, false, job("J")) }
	tests := map[string]struct {
		steps []step
		want  map[string][3]float64
	}{
		"a pod from its binding to its end": {want: map[string][3]float64{"ada": {50, 0, 1}}, steps: []step{jobSeen,
			func(b *books) { b.told(1, false, pod("1")) },
			func(b *books) { b.told(51, false, pod("1", succeeded(50))) }}},
		"an end is told more than once, and the deletion after it": {want: map[string][3]float64{"ada": {50, 0, 1}}, steps: []step{jobSeen,
			func(b *books) { b.told(1, false, pod("1")) },
			func(b *books) { b.told(51, false, pod("1", succeeded(50))) },
			func(b *books) { b.told(52, false, pod("1", succeeded(50))) },
			func(b *books) { b.told(60, true, pod("1", succeeded(50))) }}},
		"its job is seen after it": {want: map[string][3]float64{"ada": {50, 0, 1}}, steps: []step{
			func(b *books) { b.told(1, false, pod("1")) }, jobSeen,
			func(b *books) { b.told(51, false, pod("1", succeeded(50))) }}},
		"its job is seen after its end": {want: map[string][3]float64{"ada": {50, 0, 1}}, steps: []step{
			func(b *books) { b.told(51, true, pod("1", succeeded(50))) },
			func(b *books) {
				b.told(52, false, job("other", func(j *batchv1.Job) { j.Labels[names.LabelJob] = "x" }))
			}, jobSeen}},
		"a pod of nobody's job": {want: map[string][3]float64{"": {50, 0, 1}}, steps: []step{
			func(b *books) { b.told(51, true, pod("1", succeeded(50))) }}},
		"a list after a gap": {want: map[string][3]float64{"ada": {100 + 20 + 200, 180, 3}}, steps: []step{jobSeen,
			func(b *books) { b.told(1, false, pod("1"), pod("2"), pod("3")) },
			func(b *books) {
				b.check(b.pods.HandleList([]metav1.Object{pod("1", succeeded(100)), pod("3")}, at(20), snapshot.Point{Revision: "9", Time: at(200)}))
			},
			func(b *books) { b.told(200, true, pod("3")) }}},
		"a list of what ended before": {want: map[string][3]float64{"ada": {50, 0, 1}}, steps: []step{jobSeen,
			func(b *books) { b.told(51, false, pod("1", succeeded(50))) },
			func(b *books) {
				b.check(b.pods.HandleList([]metav1.Object{pod("1", succeeded(50))}, at(60), snapshot.Point{Revision: "9", Time: at(200)}))
			}}},
	}
	for name, tc := range tests {
		for _, killed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", killed after each step"}[killed], func(t *testing.T) {
				b := newBooks(t)
				for _, step := range tc.steps {
					if step(b); killed {
						b.restart()
					}
				}
				if diff := cmp.Diff(tc.want, b.sums()); diff != "" {
					t.Errorf("GPU seconds, uncertain ones and pods of users (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestWhatIsRememberedOfAJob(t *testing.T) {
	cancelled := func(when string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Annotations[names.AnnotationCancelledAt] = when }
	}
	tests := map[string]struct {
		steps    []func(*books)
		status   string
		finished int
		deleted  bool
		unsure   bool
	}{
		"it ended":                     {status: "Succeeded", finished: 50, steps: []func(*books){func(b *books) { b.told(51, false, job("J", done(50))) }}},
		"it ended, and was deleted":    {status: "Succeeded", finished: 50, deleted: true, steps: []func(*books){func(b *books) { b.told(51, false, job("J", done(50))) }, func(b *books) { b.told(90, true, job("J", done(50))) }}},
		"it was deleted":               {status: "Deleted", finished: 90, deleted: true, steps: []func(*books){func(b *books) { b.told(90, true, job("J")) }}},
		"it was cancelled":             {status: "Cancelled", finished: 30, steps: []func(*books){func(b *books) { b.told(31, false, job("J", cancelled(at(30).Format(time.RFC3339)))) }}},
		"somebody writes when it will": {status: "Cancelled", finished: 31, steps: []func(*books){func(b *books) { b.told(31, false, job("J", cancelled("2999-01-01T00:00:00Z"))) }}},
		"it went while nobody watched": {status: "Deleted", finished: 200, deleted: true, unsure: true, steps: []func(*books){func(b *books) {
			b.check(b.jobs.HandleList(nil, at(20), snapshot.Point{Revision: "9", Time: at(200)}))
		}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.told(1, false, job("J"))
			if got, _, err := b.Store.FinishedJobs(store.JobQuery{From: at(0), To: at(1000), Most: 9}); err != nil || len(got) != 0 {
				t.Fatalf("%v have finished before they did, error %v", got, err)
			}
			for _, step := range tc.steps {
				step(b)
			}
			got, _, err := b.Store.FinishedJobs(store.JobQuery{From: at(0), To: at(1000), Most: 9})
			if err != nil || len(got) != 1 {
				t.Fatalf("%v have finished, error %v", got, err)
			}
			j := got[0]
			if j.Status != tc.status || !j.Finished.Equal(at(tc.finished)) || j.User != "ada" || j.Uncertain != tc.unsure || j.Deleted.IsZero() == tc.deleted {
				t.Errorf("it is %+v, want %s at %v", j, tc.status, at(tc.finished))
			}
		})
	}
}

// TestAnArrayIsRememberedByWhatItAsked, and not by the tasks that were left when it was seen last.
func TestAnArrayIsRememberedByWhatItAsked(t *testing.T) {
	array := job("J", func(j *batchv1.Job) {
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](10), ptr.To[int32](4)
		j.Spec.Template.Spec = pod("x").Spec
	})
	first, _ := jobOf(array, "Job")
	array.Status.Succeeded = 10
	last, _ := jobOf(array, "Job")
	if first.GPUs == 0 || last.GPUs != first.GPUs {
		t.Errorf("it asked %d GPUs, and %d at its end", first.GPUs, last.GPUs)
	}
}

package jobplan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// waiting is a Job that starts after others, and still waits for some.
func waiting(dependsOn, waitsFor string, others ...string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "eval", ResourceVersion: "1", Labels: map[string]string{names.LabelJob: "eval"},
		Annotations: map[string]string{names.AnnotationDependsOn: dependsOn, names.AnnotationWaitsFor: waitsFor}}}
	job.Spec.Suspend = ptr.To(true)
	for _, key := range others {
		job.Annotations[key] = "2026-11-01T12:00:00Z"
	}
	return job
}

// change is what a patch says, nil for none.
func change(t *testing.T, step Step, err error) map[string]any {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if step.Patch == nil {
		return nil
	}
	var patch map[string]any
	if err := json.Unmarshal(step.Patch, &patch); err != nil {
		t.Fatal(err)
	}
	meta, _ := patch["metadata"].(map[string]any)
	if meta["resourceVersion"] != "1" {
		t.Errorf("the patch is not of the object that was read: %v", patch)
	}
	return map[string]any{"annotations": meta["annotations"], "spec": patch["spec"]}
}

func TestWhoWaitsStarts(t *testing.T) {
	type object = map[string]any
	left := func(value any, spec object) object {
		return object{"annotations": object{names.AnnotationWaitsFor: value}, "spec": spec}
	}
	tests := map[string]struct {
		held   *batchv1.Job
		states map[string]State
		want   object
	}{
		"all have succeeded":                        {waiting("ok=a,b", "a,b"), map[string]State{"a": StateSucceeded, "b": StateSucceeded}, left(nil, object{"suspend": false})},
		"one has succeeded, and may be deleted now": {waiting("ok=a,b", "a,b"), map[string]State{"a": StateSucceeded, "b": StateActive}, left("b", object{})},
		"the other was struck off before":           {waiting("ok=a,b", "b"), map[string]State{"b": StateSucceeded}, left(nil, object{"suspend": false})},
		"one runs":                                  {waiting("ok=a", "a"), map[string]State{"a": StateActive}, nil},
		"one failed":                                {waiting("ok=a", "a"), map[string]State{"a": StateFailed}, nil},
		"one failed, which is enough":               {waiting("any=a", "a"), map[string]State{"a": StateFailed}, left(nil, object{"suspend": false})},
		"one was cancelled, which is enough":        {waiting("any=a", "a"), map[string]State{"a": StateCancelled}, left(nil, object{"suspend": false})},
		"one is not there":                          {waiting("any=a", "a"), nil, nil},
		"one is being deleted":                      {waiting("any=a", "a"), map[string]State{"a": StateDeleted}, nil},
		"a user has paused it":                      {waiting("ok=a", "a", names.AnnotationPausedAt), map[string]State{"a": StateSucceeded}, left(nil, object{})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := SettleDependencies(tc.held, tc.states)
			if diff := cmp.Diff(tc.want, change(t, step, err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAUserAndAJobThatWaits: pausing keeps it from starting by itself, resuming that undoes it, and resuming one that is not
// paused starts it without waiting.
func TestAUserAndAJobThatWaits(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	type object = map[string]any
	step, err := Pause(waiting("ok=a", "a"), now)
	if diff := cmp.Diff(object{"annotations": object{names.AnnotationPausedAt: "2026-11-01T12:00:00Z"}, "spec": object{}}, change(t, step, err)); diff != "" {
		t.Errorf("pausing (-want +got):\n%s", diff)
	}
	step, err = Pause(waiting("ok=a", "a", names.AnnotationPausedAt), now)
	if got := change(t, step, err); got != nil {
		t.Errorf("pausing again: %v", got)
	}
	step, err = Resume(waiting("ok=a", "a", names.AnnotationPausedAt))
	if got := change(t, step, err); len(got["spec"].(object)) != 0 {
		t.Errorf("resuming one that is paused: %v", got)
	}
	step, err = Resume(waiting("ok=a", "a"))
	got := change(t, step, err)
	if annotations := got["annotations"].(object); got["spec"].(object)["suspend"] != false || annotations[names.AnnotationWaitsFor] != nil {
		t.Errorf("resuming one that waits: %v", got)
	}
}

// TestAJobIsHeldUntilItsLastRunHasEnded: whatever becomes of the others meanwhile, it does not start before it is released.
func TestAJobIsHeldUntilItsLastRunHasEnded(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ended := map[string]State{"a": StateSucceeded}
	held := waiting("ok=a", "a")
	if !HoldIfWaiting(held, now) {
		t.Fatal("one that waits for others is not held")
	}
	step, err := SettleDependencies(held, ended)
	if spec := change(t, step, err)["spec"].(map[string]any); len(spec) != 0 {
		t.Errorf("while it is held: %v", spec)
	}
	struck := held.DeepCopy()
	delete(struck.Annotations, names.AnnotationWaitsFor)
	resumed := held.DeepCopy()
	delete(resumed.Annotations, names.AnnotationPausedAt)
	other := held.DeepCopy()
	other.UID = "other"
	cancelled := held.DeepCopy()
	cancelled.Annotations[names.AnnotationCancelledAt] = "2026-11-01T12:01:00Z"
	type object = map[string]any
	tests := map[string]struct {
		top  *batchv1.Job
		spec any
	}{
		"it waits for the others again":   {held, object{}},
		"the others have ended meanwhile": {struck, object{"suspend": false}},
		"somebody has resumed it":         {resumed, nil},
		"somebody has cancelled it":       {cancelled, nil},
		"another took its name":           {other, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := ReleaseHold(tc.top, held)
			got := change(t, step, err)
			if diff := cmp.Diff(tc.spec, got["spec"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if annotations, ok := got["annotations"].(object); ok {
				if value, named := annotations[names.AnnotationPausedAt]; !named || value != nil {
					t.Errorf("it stays paused: %v", annotations)
				}
			}
		})
	}
	if HoldIfWaiting(waiting("ok=a", "a", names.AnnotationPausedAt), now) || HoldIfWaiting(&batchv1.Job{}, now) {
		t.Error("one is held, and would be released, that a user has paused or that waits for nobody")
	}
}

// TestApplyingKeepsWhatWasWaitedFor: the YAML says what a job starts after, and the cluster how far that is.
func TestApplyingKeepsWhatWasWaitedFor(t *testing.T) {
	started := waiting("ok=a,b", "")
	delete(started.Annotations, names.AnnotationWaitsFor)
	started.Spec.Suspend = ptr.To(false)
	tests := map[string]struct {
		live    *batchv1.Job
		asks    string
		waits   string
		suspend bool
	}{
		"it has started":              {started, "ok=a,b", "", false},
		"it waits for one of them":    {waiting("ok=a,b", "b"), "ok=a,b", "b", true},
		"it is to wait for others":    {waiting("ok=a,b", "b"), "ok=a,c", "a,c", true},
		"it has started, and is told": {started, "ok=c", "", false},
		"it is to wait for nobody":    {waiting("ok=a,b", "b"), "", "", false},
		"it never said for whom":      {waiting("", "b"), "", "", false},
		"it is paused, too":           {waiting("ok=a,b", "b", names.AnnotationPausedAt), "", "", true},
		"it is cancelled":             {waiting("ok=a,b", "b", names.AnnotationCancelledAt), "", "", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			desired := waiting(tc.asks, strings.TrimPrefix(tc.asks, "ok="))
			if tc.asks == "" {
				desired.Annotations, desired.Spec.Suspend = nil, nil
			}
			PreserveState(desired, tc.live)
			suspend := ptr.Deref(desired.Spec.Suspend, false)
			if got := desired.Annotations[names.AnnotationWaitsFor]; got != tc.waits || suspend != tc.suspend {
				t.Errorf("it waits for %q, suspended %t; want %q and %t", got, suspend, tc.waits, tc.suspend)
			}
		})
	}
}

// TestNobodyLooksUpAHundredThousandJobs: a job with a list that gpuctl does not write waits for nobody in particular, until it
// is resumed.
func TestNobodyLooksUpAHundredThousandJobs(t *testing.T) {
	long := strings.Repeat("a,", 130_000) + "b"
	job := waiting("ok="+long, long)
	if waits, asks := PendingDependencies(job), DependenciesOf(job).Jobs; len(waits) != 0 || len(asks) != 0 {
		t.Errorf("it waits for %d jobs, and starts after %d", len(waits), len(asks))
	}
	step, err := Resume(job)
	got := change(t, step, err)
	value, named := got["annotations"].(map[string]any)[names.AnnotationWaitsFor]
	if got["spec"].(map[string]any)["suspend"] != false || !named || value != nil {
		t.Errorf("resuming it: %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, PendingDependencies(waiting("ok=a,b", "a,b,a"))); diff != "" {
		t.Errorf("each once (-want +got):\n%s", diff)
	}
}

func TestALongWayIsToldInShort(t *testing.T) {
	if got := FormatCycle([]string{"a", "b", "a"}); got != "a waits for b waits for a" {
		t.Error(got)
	}
	way := strings.Split(strings.Repeat("job,", 10_000)+"last", ",")
	if got := FormatCycle(way); len(got) > 500 || !strings.HasSuffix(got, " waits for 9985 others waits for last") {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

func TestJobsThatWaitForEachOther(t *testing.T) {
	tests := map[string]struct {
		waits map[string][]string
		want  []string
	}{
		"nobody waits":              {nil, nil},
		"a line":                    {map[string][]string{"a": {"b"}, "b": {"c"}}, nil},
		"two":                       {map[string][]string{"a": {"x", "b"}, "b": {"a"}}, []string{"a", "b", "a"}},
		"four":                      {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b", "a"}}, []string{"a", "b", "c", "d", "a"}},
		"others, and not this one":  {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}, nil},
		"it waits for itself alone": {map[string][]string{"a": {"a"}}, []string{"a", "a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FindCycle("a", tc.waits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAUserPausesAGangThatIsHeldForAQuota: it is paused then, and resuming it has it wait for its turn again.
func TestAUserPausesAGangThatIsHeldForAQuota(t *testing.T) {
	type object = map[string]any
	held := func(others ...string) *batchv1.Job {
		job := waiting("", "", others...)
		delete(job.Annotations, names.AnnotationWaitsFor)
		job.Annotations[names.AnnotationQuotaBehind] = "first"
		return job
	}
	step, err := Pause(held(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	if diff := cmp.Diff(object{"annotations": object{names.AnnotationPausedAt: "2026-11-01T12:00:00Z"}, "spec": object{}}, change(t, step, err)); diff != "" {
		t.Errorf("pausing (-want +got):\n%s", diff)
	}
	step, err = Resume(held(names.AnnotationPausedAt))
	if got := change(t, step, err); len(got["spec"].(object)) != 0 {
		t.Errorf("resuming one that is paused starts it: %v", got)
	}
	step, err = Resume(held())
	if got := change(t, step, err); got["spec"].(object)["suspend"] != false || got["annotations"].(object)[names.AnnotationQuotaBehind] != nil {
		t.Errorf("resuming one that is held: %v", got)
	}
	if !HeldForQuota(held()) || HeldForQuota(held(names.AnnotationPausedAt)) || HeldForQuota(held(names.AnnotationPausedBecause)) {
		t.Error("it is held for a quota unless it is paused, or made again while its last pods run")
	}
}

// TestKueueDecidesWhenItsJobsStart and suspends at once what a user lets go.
func TestKueueDecidesWhenItsJobsStart(t *testing.T) {
	job := waiting("", "")
	job.Labels[names.LabelKueueQueue] = "team-a"
	if _, err := Resume(job); err == nil || !strings.Contains(err.Error(), "Kueue holds it back in queue team-a") {
		t.Errorf("resumed: %v", err)
	}
	paused := waiting("", "", names.AnnotationPausedAt)
	paused.Labels[names.LabelKueueQueue] = "team-a"
	if step, err := Resume(paused); err != nil || step.Patch == nil {
		t.Errorf("what a user has paused is not resumed: %v", err)
	}
}

// TestKueueStartsAgainWhatIsPaused, so that such a job is stopped by Kueue or not at all.
func TestKueueStartsAgainWhatIsPaused(t *testing.T) {
	job := waiting("", "")
	job.Spec.Suspend, job.UID = ptr.To(false), "uid-of-it"
	if step, err := Pause(job, time.Now()); err != nil || step.Patch == nil {
		t.Fatalf("a job without Kueue is not paused: %v", err)
	}
	job.Labels[names.LabelKueueQueue] = "team-a"
	for _, why := range []string{"", "its GPUs are idle"} {
		step, err := PauseBecause(job, time.Now(), why)
		if step.Patch != nil || err == nil || !strings.Contains(err.Error(), "Kueue decides when a job of queue team-a runs") || !strings.Contains(err.Error(), "job-uid=uid-of-it") {
			t.Errorf("because of %q it is paused: %s, %v", why, step.Patch, err)
		}
	}
}

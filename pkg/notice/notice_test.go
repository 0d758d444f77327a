package notice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
)

var (
	noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	by   = notice.Preemptor{Namespace: "team", Pod: "urgent-0", Group: "urgent", UID: "job"}
)

func saved(uid types.UID, at string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	if at != "" {
		pod.Annotations = map[string]string{names.AnnotationCheckpointedAt: at}
	}
	return pod
}

func told(n notice.Notice) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationPreemptionNotice: n.AnnotationText()}}}
}

// TestANoticeIsReadAsItWasWritten, and what is none is none.
func TestANoticeIsReadAsItWasWritten(t *testing.T) {
	want := notice.Notice{At: noon, Until: noon.Add(5 * time.Minute), For: by, Awaited: true, Saved: "2026-11-22T11:00:00Z"}
	if got, ok := notice.FromPod(told(want)); !ok || !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "soon", "another thing": "[]", "for nobody": `{"at":"2026-11-22T12:00:00Z","until":"2026-11-22T12:05:00Z"}`,
		"no time": `{"for":{"namespace":"a","pod":"b"}}`, "a time that is none": `{"until":"soon","for":{"pod":"b"}}`,
		"more than is read": `{"until":"2026-11-22T12:05:00Z","for":{"pod":"` + strings.Repeat("x", 1<<16) + `"}}`,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationPreemptionNotice: text}}}
		if got, ok := notice.FromPod(pod); ok {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}

// TestAnAnswerIsAnotherTimeThanBefore, whatever the clock of the node says.
func TestAnAnswerIsAnotherTimeThanBefore(t *testing.T) {
	tests := map[string]struct {
		before, now string
		want        bool
	}{
		"it never saved":               {"", "", false},
		"it saves for the first time":  {"", "2026-11-22T12:01:00Z", true},
		"it has not saved since":       {"2026-11-22T11:00:00Z", "2026-11-22T11:00:00Z", false},
		"it has":                       {"2026-11-22T11:00:00Z", "2026-11-22T12:01:00Z", true},
		"its clock is an hour behind":  {"2026-11-22T10:00:00Z", "2026-11-22T11:01:00Z", true},
		"it takes back what it said":   {"2026-11-22T11:00:00Z", "", false},
		"what it says is no time":      {"", "now", false},
		"what it says is far too long": {"", strings.Repeat("2", 1<<16), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := notice.PlanNotices([]notice.Victim{{Pod: saved("a", tc.before), Grace: time.Minute}}, by, noon)
			if got := plan["a"].IsAnswered(saved("a", tc.now)); got != tc.want {
				t.Errorf("answered: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestWhatVictimsAreTold.
func TestWhatVictimsAreTold(t *testing.T) {
	minutes := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	earlier := &notice.Notice{At: minutes(-2), Until: minutes(1), Awaited: true, Saved: "2026-11-22T11:00:00Z", For: notice.Preemptor{Pod: "other"}}
	tests := map[string]struct {
		victims []notice.Victim
		now     time.Time
		want    map[types.UID]notice.Notice
	}{
		"nobody asks for time": {victims: []notice.Victim{{Pod: saved("a", "")}, {Pod: saved("b", "")}}},
		"who does not ask leaves with the last that does": {
			victims: []notice.Victim{{Pod: saved("a", ""), Grace: time.Minute}, {Pod: saved("b", ""), Grace: 3 * time.Minute}, {Pod: saved("c", "")}},
			want: map[types.UID]notice.Notice{
				"a": {At: noon, Until: minutes(1), For: by, Awaited: true},
				"b": {At: noon, Until: minutes(3), For: by, Awaited: true},
				"c": {At: noon, Until: minutes(3), For: by},
			},
		},
		"who was told before has no more time": {
			victims: []notice.Victim{{Pod: saved("a", "2026-11-22T11:00:00Z"), Grace: 5 * time.Minute, Before: earlier}},
			want: map[types.UID]notice.Notice{
				"a": {At: minutes(-2), Until: minutes(1), For: by, Awaited: true, Saved: "2026-11-22T11:00:00Z"},
			},
		},
		"who has answered before is not asked again": {
			victims: []notice.Victim{{Pod: saved("a", "2026-11-22T11:59:00Z"), Grace: 5 * time.Minute, Before: earlier}},
		},
		"nobody has less time than they ask for": {
			victims: []notice.Victim{{Pod: saved("a", ""), Grace: time.Second}}, now: noon.Add(700 * time.Millisecond),
			want: map[types.UID]notice.Notice{"a": {At: noon, Until: noon.Add(2 * time.Second), For: by, Awaited: true}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.now.IsZero() {
				tc.now = noon
			}
			if got := notice.PlanNotices(tc.victims, by, tc.now); !cmp.Equal(tc.want, got) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tc.want, got))
			}
		})
	}
}

// TestOthersWaitForOne until it has answered, or its time is over.
func TestOthersWaitForOne(t *testing.T) {
	plan := notice.PlanNotices([]notice.Victim{{Pod: saved("a", ""), Grace: time.Minute}, {Pod: saved("b", "")}}, by, noon)
	if !plan["a"].IsPending(saved("a", ""), noon.Add(59*time.Second)) {
		t.Error("nobody waits for one that has time")
	}
	if plan["a"].IsPending(saved("a", ""), noon.Add(time.Minute)) {
		t.Error("others wait for one whose time is over")
	}
	if plan["a"].IsPending(saved("a", "2026-11-22T12:00:30Z"), noon.Add(31*time.Second)) {
		t.Error("others wait for one that has answered")
	}
	if plan["b"].IsPending(saved("b", ""), noon) {
		t.Error("others wait for one that did not ask")
	}
}

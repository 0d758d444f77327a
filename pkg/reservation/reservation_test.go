package reservation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

func node(name, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.LabelPool: pool}}}
}

// podFor may run for so long after it has been taken by its node, for ever if that is 0, and has 30 s to end.
func podFor(namespace string, limit time.Duration) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	if limit > 0 {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds()))
	}
	return pod
}

func TestAgainst(t *testing.T) {
	maintenance := Window{Name: "maintenance", Nodes: []string{"a"}, From: at(2), To: at(4)}
	tests := map[string]struct {
		windows []Window
		pod     *corev1.Pod
		node    *corev1.Node
		want    string // the window that keeps it
	}{
		"nothing is reserved":                              {pod: podFor("lab", 0), node: node("a", "")},
		"a pod without a limit could run for ever":         {[]Window{maintenance}, podFor("lab", 0), node("a", ""), "maintenance"},
		"one that ends before":                             {[]Window{maintenance}, podFor("lab", time.Hour), node("a", ""), ""},
		"one that has the last second to begin and to end": {[]Window{maintenance}, podFor("lab", 2*time.Hour-90*time.Second), node("a", ""), ""},
		"one that could be a second late":                  {[]Window{maintenance}, podFor("lab", 2*time.Hour-89*time.Second), node("a", ""), "maintenance"},
		"one that has long to end": {[]Window{maintenance}, func() *corev1.Pod {
			pod := podFor("lab", time.Hour)
			pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2 * 60 * 60)
			return pod
		}(), node("a", ""), "maintenance"},
		"one that has for ever to end": {[]Window{maintenance}, func() *corev1.Pod {
			pod := podFor("lab", time.Hour)
			pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1<<63 - 1)
			return pod
		}(), node("a", ""), "maintenance"},
		"another node":                  {[]Window{maintenance}, podFor("lab", 0), node("b", ""), ""},
		"within the window":             {[]Window{{Name: "w", Nodes: []string{"a"}, From: at(-1), To: at(1)}}, podFor("lab", time.Second), node("a", ""), "w"},
		"at its end":                    {[]Window{{Name: "w", Nodes: []string{"a"}, From: at(-1), To: at(0)}}, podFor("lab", 0), node("a", ""), ""},
		"who it is for":                 {[]Window{{Name: "w", Nodes: []string{"a"}, From: at(-1), To: at(1), Namespaces: []string{"x", "lab"}}}, podFor("lab", 0), node("a", ""), ""},
		"who it is not for":             {[]Window{{Name: "w", Nodes: []string{"a"}, From: at(-1), To: at(1), Namespaces: []string{"x"}}}, podFor("lab", 0), node("a", ""), "w"},
		"a pool":                        {[]Window{{Name: "w", Pool: "train", From: at(1), To: at(2)}}, podFor("lab", 0), node("a", "train"), "w"},
		"another pool":                  {[]Window{{Name: "w", Pool: "train", From: at(1), To: at(2)}}, podFor("lab", 0), node("a", "other"), ""},
		"the default pool":              {[]Window{{Name: "w", Pool: names.DefaultPool, From: at(1), To: at(2)}}, podFor("lab", 0), &corev1.Node{}, "w"},
		"maintenance of what is theirs": {[]Window{{Name: "w", Pool: "train", From: at(0), To: at(9), Namespaces: []string{"lab"}}, maintenance}, podFor("lab", 0), node("a", "train"), "maintenance"},
		"the first of two":              {[]Window{maintenance, {Name: "w", Pool: "train", From: at(1), To: at(2)}}, podFor("lab", 0), node("a", "train"), "w"},
		"one that ends before it begins keeps nothing": {[]Window{{Name: "w", Nodes: []string{"a"}, From: at(3), To: at(2)}}, podFor("lab", 0), node("a", ""), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if w := NewBook(tc.windows).ClosedFor(tc.pod, noon).FirstOn(tc.node); w != nil {
				got = w.Name
			}
			if got != tc.want {
				t.Errorf("%q keeps it, want %q", got, tc.want)
			}
		})
	}
}

// TestNobodyIsThereWhoMayNot places pods at random by what the book says, lets each stay for as long as it may, and looks at every
// moment of every window.
func TestNobodyIsThereWhoMayNot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	placed := 0
	for range 20_000 {
		var windows []Window
		for i := range 1 + random.IntN(4) {
			w := Window{Name: fmt.Sprint("w", i), From: at(random.Float64()*8 - 4)}
			w.To = w.From.Add(time.Duration(1 + random.Int64N(int64(4*time.Hour))))
			if random.IntN(2) == 0 {
				w.Pool = pick("p", "q")
			} else {
				w.Nodes = []string{pick("a", "b"), pick("c", "d")}
			}
			for range random.IntN(3) {
				w.Namespaces = append(w.Namespaces, pick("x", "y"))
			}
			windows = append(windows, w)
		}
		pod, on := podFor(pick("x", "y", "z"), time.Duration(random.Int64N(int64(6*time.Hour)))), node(pick("a", "b", "c", "d"), pick("p", "q"))
		if random.IntN(3) == 0 {
			pod.Spec.TerminationGracePeriodSeconds = ptr.To(random.Int64N(4000))
		}
		refused := NewBook(windows).ClosedFor(pod, noon).FirstOn(on) != nil
		stay, limited := MaxStay(pod)
		overlaps := slices.ContainsFunc(windows, func(w Window) bool {
			foreign := w.KeepsNode(on) && !slices.Contains(w.Namespaces, pod.Namespace)
			return foreign && w.To.After(noon) && (!limited || noon.Add(stay).After(w.From))
		})
		if refused != overlaps {
			t.Fatalf("of namespace %s with %s on %s of %s: refused %v, and it could be there when it may not: %v\n%+v",
				pod.Namespace, stay, on.Name, on.Labels, refused, overlaps, windows)
		}
		if !refused {
			placed++
		}
	}
	if placed < 2_000 {
		t.Errorf("only %d pods were placed: that proves little", placed)
	}
}

// TestALimitIsEnough: a job with the limit that is advised gets the node, and one with a minute more does not.
func TestALimitIsEnough(t *testing.T) {
	for _, until := range []time.Duration{0, time.Minute, 3 * time.Minute, time.Hour, 90*time.Minute + 17*time.Second} {
		window := Window{Name: "w", Nodes: []string{"a"}, From: noon.Add(until), To: noon.Add(until + time.Hour)}
		limit := LongestTimeLimit(podFor("lab", 0), noon, window.From)
		for _, tc := range []struct {
			limit time.Duration
			want  bool
		}{{limit, true}, {limit + time.Minute, false}} {
			if tc.limit == 0 {
				continue // no limit that could be advised
			}
			got := NewBook([]Window{window}).ClosedFor(podFor("lab", tc.limit+DeadlineSlack), noon).FirstOn(node("a", "")) == nil
			if got != tc.want {
				t.Errorf("%s before the window a job of %s gets the node: %v, want %v", until, tc.limit, got, tc.want)
			}
		}
	}
}

func TestReleased(t *testing.T) {
	past, present, future := Window{Name: "past", Revision: "1", From: at(-2), To: at(-1)}, Window{Name: "present", Revision: "2", From: at(-1), To: at(1)},
		Window{Name: "future", Revision: "3", From: at(2), To: at(3)}
	changed := future
	changed.Revision = "4"
	tests := map[string]struct {
		before, after []Window
		from, to      time.Time
		want          []string
	}{
		"nothing was there":     {nil, []Window{present}, at(0), at(0), nil},
		"nothing has happened":  {[]Window{present, future}, []Window{present, future}, at(0), at(0.5), nil},
		"one has ended":         {[]Window{present, future}, []Window{present, future}, at(0), at(1), []string{"present"}},
		"and was told of":       {[]Window{present}, []Window{present}, at(1), at(1.5), nil},
		"one was deleted":       {[]Window{past, present, future}, []Window{past, present}, at(0), at(0), []string{"future"}},
		"one that is long over": {[]Window{past}, nil, at(0), at(0), nil},
		"one was changed":       {[]Window{future}, []Window{changed}, at(0), at(0), []string{"future"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range ReleasedWindows(NewBook(tc.before), NewBook(tc.after), tc.from, tc.to) {
				got = append(got, w.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUntil(t *testing.T) {
	w := func(name string, from, to float64, change ...func(*Window)) Window {
		out := Window{Name: name, Nodes: []string{"a"}, From: at(from), To: at(to)}
		for _, c := range change {
			c(&out)
		}
		return out
	}
	ofPool := func(w *Window) { w.Nodes, w.Pool = nil, "p" }
	tests := map[string]struct {
		windows []Window
		limit   time.Duration
		want    []string
		at      time.Time
	}{
		"none":                              {nil, 0, nil, time.Time{}},
		"one":                               {[]Window{w("x", 1, 2)}, 0, []string{"x"}, at(2)},
		"two that overlap":                  {[]Window{w("x", 1, 3), w("y", 2, 4, ofPool)}, 0, []string{"x", "y"}, at(4)},
		"one within another":                {[]Window{w("x", 1, 9), w("y", 2, 4)}, 0, []string{"x", "y"}, at(9)},
		"one that it ends before":           {[]Window{w("x", -1, 1), w("y", 4, 5)}, time.Hour, []string{"x"}, at(1)},
		"one that it runs into as it waits": {[]Window{w("x", -1, 1), w("y", 1.5, 5)}, time.Hour, []string{"x", "y"}, at(5)},
		"of another node":                   {[]Window{w("x", 1, 2, func(w *Window) { w.Nodes = []string{"b"} })}, 0, nil, noon},
		"what is theirs is in nobody's way": {[]Window{w("x", 1, 2), w("y", 1, 9, func(w *Window) { w.Namespaces = []string{"lab"} })}, 0, []string{"x"}, at(2)},
		"nor is what is over":               {[]Window{w("x", -2, 0), w("y", 1, 2)}, 0, []string{"y"}, at(2)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			windows, opens := NewBook(tc.windows).ClosedFor(podFor("lab", tc.limit), noon).OpensAt(node("a", "p"))
			var got []string
			for _, w := range windows {
				got = append(got, w.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || !opens.Equal(tc.at) {
				t.Errorf("until %s, want %s; windows (-want +got):\n%s", opens, tc.at, diff)
			}
		})
	}
}

func TestKeptOut(t *testing.T) {
	over, ahead := Window{From: at(-2), To: at(0)}, Window{From: at(2), To: at(4)}
	tests := map[string]struct {
		windows []Window
		pod     *corev1.Pod
		want    bool
	}{
		"no window":                       {nil, podFor("lab", 0), false},
		"a window that has ended":         {[]Window{over}, podFor("lab", time.Second), true},
		"one that it was for":             {[]Window{{From: at(-2), To: at(0), Namespaces: []string{"lab"}}}, podFor("lab", 0), false},
		"one that is taken back":          {[]Window{ahead}, podFor("lab", 0), true},
		"one that it would end before":    {[]Window{ahead}, podFor("lab", time.Hour), false},
		"one that it could have run into": {[]Window{ahead}, podFor("lab", 2*time.Hour), true},
		"the second of two":               {[]Window{{From: at(-2), To: at(0), Namespaces: []string{"lab"}}, over}, podFor("lab", 0), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := HasKeptOut(tc.windows, tc.pod, noon); got != tc.want {
				t.Errorf("kept out: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNextEnd(t *testing.T) {
	book := NewBook([]Window{{From: at(0), To: at(5)}, {From: at(1), To: at(2)}})
	for after, want := range map[time.Time]time.Time{at(0): at(2), at(2): at(5), at(5): {}} {
		if got := book.NextEnd(after); !got.Equal(want) {
			t.Errorf("after %s the next end is %s, want %s", after, got, want)
		}
	}
	if got := (*Book)(nil).NextEnd(noon); !got.IsZero() {
		t.Errorf("no book ends at %s", got)
	}
}

func TestOf(t *testing.T) {
	object := &names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: types.UID("u"), ResourceVersion: "7", Generation: 2}, Spec: names.GPUReservationSpec{
		Nodes: []string{"a"}, From: metav1.NewTime(at(1)), To: metav1.NewTime(at(2)), Namespaces: []string{"x"}, Reason: "firmware",
	}}
	want := Window{Name: "r", Revision: "u/2", Nodes: []string{"a"}, From: at(1), To: at(2), Namespaces: []string{"x"}, Reason: "firmware"}
	if diff := cmp.Diff(want, WindowOf(object)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFingerprint differs by what is kept from the pod, and not by what is not.
func TestFingerprint(t *testing.T) {
	mine, other := Window{Name: "a", Revision: "1", From: at(0), To: at(1), Namespaces: []string{"lab"}}, Window{Name: "b", Revision: "1", From: at(0), To: at(1)}
	changed := other
	changed.Revision = "2"
	of := func(windows ...Window) uint64 {
		return NewBook(windows).ClosedFor(podFor("lab", 0), noon).Fingerprint()
	}
	if of() != 0 || of(mine) != 0 || of(other) == 0 || of(other) != of(mine, other) || of(other) == of(changed) {
		t.Errorf("fingerprints are %d %d %d %d %d", of(), of(mine), of(other), of(mine, other), of(changed))
	}
}

package coscheduling

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

func createdAtNoon(group *unstructured.Unstructured) {
	group.SetCreationTimestamp(metav1.NewTime(noon))
}

// TestAGangHoldsOutForOneRack while there is room in two, and evicts nobody for it; then it takes what there is.
func TestAGangHoldsOutForOneRack(t *testing.T) {
	const holdsOut = "gang: no rack has room for all 2 members now, and it holds out for one until 2026-01-01T12:10:00Z"
	for name, tc := range map[string]struct {
		busy    []int // nodes with a pod of lower priority
		after   time.Duration
		change  func(*corev1.Pod)
		want    string
		evicted bool
	}{
		"it waits":                  {busy: []int{1, 3}, after: time.Minute, want: holdsOut},
		"it waits to the end":       {busy: []int{1, 3}, after: 10*time.Minute - time.Second, want: holdsOut},
		"its time is over":          {busy: []int{1, 3}, after: 10 * time.Minute, want: "n0 n2"},
		"a rack has room":           {busy: []int{1}, after: time.Minute, want: "n2 n3"},
		"there is no room anywhere": {busy: []int{0, 1, 2}, after: time.Minute, want: "gang: there is room for 1 of 2 members now", evicted: true},
		"others have left for it": {busy: []int{1, 3}, after: time.Minute, change: func(pod *corev1.Pod) {
			pod.Status.NominatedNodeName = "n" + map[string]string{"a": "0", "b": "2"}[pod.Name]
		}, want: "n0 n2"},
		"the clock stands, as in a study": {busy: []int{1, 3}, after: -1, want: "n0 n2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.answers()
			now := noon.Add(tc.after)
			if tc.after < 0 {
				now = time.Time{}
			}
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut("preferred=rack;wait=10m"), createdAtNoon)
			for _, node := range tc.busy {
				l.running(node, "low"+l.infos[node].Node().Name, 1, ofPriority(-1))
			}
			var pods []*corev1.Pod
			for _, name := range []string{"a", "b"} {
				pods = append(pods, l.member(name, func(pod *corev1.Pod) {
					if tc.change != nil {
						tc.change(pod)
					}
				}))
			}
			if !strings.HasPrefix(tc.want, "gang: ") {
				if got := l.settle(pods[0]) + " " + l.settle(pods[1]); got != tc.want {
					t.Errorf("the members are on %s, want %s", got, tc.want)
				}
				return
			}
			if _, _, reason := l.aim(pods[0]); !strings.HasPrefix(reason, tc.want) {
				t.Errorf("told %q, want %q", reason, tc.want)
			}
			if _, evicted, _ := l.refuse(pods[0]); (len(evicted) > 0) != tc.evicted {
				t.Errorf("%v are evicted", evicted)
			}
		})
	}
}

// TestAGangHoldsOutForItsSegments, each in one rack.
func TestAGangHoldsOutForItsSegments(t *testing.T) {
	l := newRacks(t, 6, 1, 3)
	now := noon.Add(time.Minute)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(4)}, laidOut("preferred=rack;segment=2;wait=10m"), createdAtNoon)
	pods := l.ranks(0, 4)
	const holdsOut = "gang: only 1 of 2 segments have room in one rack each now, and it holds out for all until 2026-01-01T12:10:00Z"
	cs, _, reason := l.aim(pods[0])
	if reason != holdsOut {
		t.Fatalf("told %q, want %q", reason, holdsOut)
	}
	if _, evicted := l.postFilter(cs, pods[0]); evicted != nil {
		t.Errorf("%v are evicted", evicted)
	}
	now = noon.Add(10 * time.Minute)
	if got := l.settleAll(pods); got != "n0 n2 n4 n5" {
		t.Errorf("the members are on %s", got)
	}
}

// TestWhoHoldsOutIsTriedWhenTheTimeIsOver: nothing that happens in the cluster tells of that.
func TestWhoHoldsOutIsTriedWhenTheTimeIsOver(t *testing.T) {
	l := newRacks(t, 4, 1, 3)
	l.now = func() time.Time { return noon.Add(10*time.Minute - 50*time.Millisecond) }
	l.group("g", map[string]any{"minMember": int64(2)}, laidOut("preferred=rack;wait=10m"), createdAtNoon)
	first := l.member("a")
	l.member("b")
	for range 3 {
		if _, _, reason := l.aim(first); !strings.Contains(reason, "holds out") {
			t.Fatalf("told %q", reason)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); len(l.tried()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the members are not tried")
		}
	}
	if tried := l.tried(); !slices.Equal(tried, []string{"ns/a", "ns/b"}) {
		t.Errorf("%v are tried, want both members once", tried)
	}
}

// TestAWaitIsReadWithinBounds.
func TestAWaitIsReadWithinBounds(t *testing.T) {
	if l, problem := podgroup.ReadLayout("preferred=rack;wait=10m"); problem != "" || l != (placement.Layout{Level: "rack", Wait: 10 * time.Minute}) {
		t.Errorf("%+v, %q", l, problem)
	}
	for _, text := range []string{"required=rack;wait=10m", "preferred=rack;wait=", "preferred=rack;wait=soon", "preferred=rack;wait=-1s", "preferred=rack;wait=0s", "preferred=rack;wait=25h", "preferred=rack;wait=10m;wait=5m"} {
		if _, problem := podgroup.ReadLayout(text); !strings.Contains(problem, "want preferred=<level>;wait=10m with a time of up to 24h") {
			t.Errorf("%s: %q", text, problem)
		}
	}
}

// TestASegmentIsReadWithinBounds, and no value of it is taken for another one.
func TestASegmentIsReadWithinBounds(t *testing.T) {
	for text, want := range map[string]placement.Layout{
		"required=nvlink;segment=16":             {Level: "nvlink", Required: true, Segment: 16},
		"preferred=rack;segment=1;wait=10m":      {Level: "rack", Segment: 1, Wait: 10 * time.Minute},
		"preferred=rack;wait=10m;segment=2":      {Level: "rack", Segment: 2, Wait: 10 * time.Minute},
		"required=example.com/row;segment=10000": {Level: "example.com/row", Required: true, Segment: placement.MaxMembers},
	} {
		if l, problem := podgroup.ReadLayout(text); problem != "" || l != want {
			t.Errorf("%s: %+v, %q", text, l, problem)
		}
	}
	for _, size := range []string{"", "0", "-16", "+16", "016", "1.5", "1e3", "16 ", "0x10", "10001", "9223372036854775808", "sixteen", "16;segment=16", strings.Repeat("9", 100_000)} {
		if _, problem := podgroup.ReadLayout("required=rack;segment=" + size); !strings.Contains(problem, "want required=<level>;segment=16 with a whole number from 1 to 10000") || len(problem) > 300 {
			t.Errorf("%.40q: %.400q", size, problem)
		}
	}
	for _, text := range []string{"required=rack;segments=16", "required=rack;", "required=rack;segment=2;", "preferred=rack;segment=2;wait=1m;x", strings.Repeat(";", 100_000)} {
		if _, problem := podgroup.ReadLayout(text); problem == "" || len(problem) > 400 {
			t.Errorf("%.60q is read, or told at length: %.400q", text, problem)
		}
	}
}

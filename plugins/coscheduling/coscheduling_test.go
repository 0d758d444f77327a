package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestPodsOfNoGroupHearNothing(t *testing.T) {
	result, status := newLab(t, 0).PostFilter(t.Context(), framework.NewCycleState(), &corev1.Pod{}, nil)
	if result != nil || status.Code() != fwk.Unschedulable || len(status.Reasons()) > 0 {
		t.Errorf("got %v and %v, want no result and no reason", result, status)
	}
	if _, status := (&Plugin{}).PreFilter(t.Context(), nil, &corev1.Pod{}, nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v, want a skip", status)
	}
	if status, _ := (&Plugin{}).Permit(t.Context(), nil, &corev1.Pod{}, "n"); !status.IsSuccess() {
		t.Errorf("Permit: %v", status)
	}
}

func TestSignPod(t *testing.T) {
	if fragments, status := (&Plugin{}).SignPod(t.Context(), &corev1.Pod{}); !status.IsSuccess() || len(fragments) > 0 {
		t.Errorf("a pod of no group: %v and %v, want nothing, so that alike pods are placed in batches", fragments, status)
	}
	if _, status := (&Plugin{}).SignPod(t.Context(), newLab(t, 0).member("m")); status.Code() != fwk.Unschedulable {
		t.Errorf("a member: %v, want a refusal, for its fate hangs on the others", status)
	}
}

// TestWhoCounts has the last member of a gang of three tried beside others. The gang starts if they count.
func TestWhoCounts(t *testing.T) {
	three := map[string]any{"minMember": int64(3)}
	type change = func(*corev1.Pod)
	tests := map[string]struct {
		others [2][]change
		group  func(*unstructured.Unstructured)
		starts bool
		// reason is why it is turned away, "" if it gets a place and waits.
		reason string
	}{
		"both are bound by the leader before this one":  {others: [2][]change{{boundTo("n0")}, {boundTo("n1")}}, starts: true},
		"one is bound, one is still to come":            {others: [2][]change{{boundTo("n0")}, nil}},
		"both are still to come":                        {},
		"one leaves":                                    {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), leaving}}, reason: "current pods number: 2, minMember of group: 3"},
		"both leave, of a job of the same name":         {others: [2][]change{{boundTo("n0"), ownedBy("old"), leaving}, {boundTo("n1"), ownedBy("old"), leaving}}, reason: "current pods number: 1"},
		"both run still, of a job that is deleted":      {others: [2][]change{{boundTo("n0"), ownedBy("old")}, {boundTo("n1"), ownedBy("old")}}, reason: "current pods number: 1"},
		"a pod that nobody made has the label":          {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), func(p *corev1.Pod) { p.OwnerReferences = nil }}}, reason: "current pods number: 2"},
		"one is of another group":                       {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = "h" }}}, reason: "current pods number: 2"},
		"one is of another namespace":                   {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), func(p *corev1.Pod) { p.Namespace = "other" }}}, reason: "current pods number: 2"},
		"one has failed":                                {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }}}, reason: "current pods number: 2"},
		"one is bound to a node that is gone":           {others: [2][]change{{boundTo("n0")}, {boundTo("no-more")}}, reason: "current pods number: 2"},
		"one is held back by a gate":                    {others: [2][]change{{boundTo("n0")}, {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "q"}} }}}, reason: string(reason.GangGated.Text)},
		"one is another scheduler's":                    {others: [2][]change{{boundTo("n0")}, {func(p *corev1.Pod) { p.Spec.SchedulerName = "x" }}}, reason: string(reason.GangForeign.Text)},
		"one was bound by another scheduler":            {others: [2][]change{{boundTo("n0")}, {boundTo("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "x" }}}, starts: true},
		"they have other controllers, as an MPIJob has": {others: [2][]change{{boundTo("n0"), ownedBy("launcher")}, {boundTo("n1")}}, reason: "minMember of group: 3; the 1 of other owners with its label would make it whole: if they belong to it, give the PodGroup the annotation g8s.host/several-owners=true"},
		"they have, and the PodGroup says so": {
			others: [2][]change{{boundTo("n0"), ownedBy("launcher")}, {boundTo("n1")}}, starts: true,
			group: func(g *unstructured.Unstructured) {
				g.SetAnnotations(map[string]string{names.AnnotationSeveralOwners: names.True})
			},
		},
		"one asks for another pool, which is there":      {others: [2][]change{nil, {func(p *corev1.Pod) { p.Labels[names.LabelPool] = "default" }}}},
		"one asks for another pool, which no node is in": {others: [2][]change{nil, {func(p *corev1.Pod) { p.Labels[names.LabelPool] = "x" }}}, reason: "room for 2 of 3 members, even when they are empty"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 3)
			var changes []func(*unstructured.Unstructured)
			if tc.group != nil {
				changes = append(changes, tc.group)
			}
			l.group("g", three, changes...)
			for i, changes := range tc.others {
				l.member(fmt.Sprint("other-", i), changes...)
			}
			reason, waits := l.try(l.member("last"))
			if started := reason == "" && !waits; started != tc.starts || (tc.reason == "") != (reason == "") || !strings.Contains(reason, tc.reason) {
				t.Errorf("turned away with %q, waits: %t; want it to start: %t, turned away with %q", reason, waits, tc.starts, tc.reason)
			}
		})
	}
}

// TestMembersWaitForEachOther until the last has a place, and give theirs up together.
func TestMembersWaitForEachOther(t *testing.T) {
	l := newLab(t, 3)
	l.group("g", map[string]any{"minMember": int64(3)})
	pods := []*corev1.Pod{l.member("a"), l.member("b"), l.member("c")}
	for i, pod := range pods[:2] {
		if reason, waits := l.try(pod); !waits {
			t.Fatalf("member %d does not wait: %q", i, reason)
		}
	}
	if got := strings.Join(l.tried(), " "); got != "ns/b ns/c" {
		t.Errorf("activated %q, want the others, when the first has its place", got)
	}
	g := gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0])))
	if !l.gangs.hasBegun(g, 3) {
		t.Error("the gang has not begun")
	}
	if _, status := l.PostFilter(t.Context(), framework.NewCycleState(), pods[2], nil); status.Message() != reasonNoRoomForAll {
		t.Errorf("PostFilter: %v, want %q", status, reasonNoRoomForAll)
	}
	for _, held := range l.held {
		if held.refused == "" {
			t.Errorf("%s keeps its place, though a sibling found none", held.pod.Name)
		}
	}
	if l.gangs.hasBegun(g, 3) || l.gangs.stateOf(g).FailedAt().IsZero() {
		t.Error("the gang gave up its places, and counts as begun, or as one that never failed")
	}
	l.held = nil
	for _, pod := range pods {
		l.try(pod)
	}
	for _, held := range l.held {
		if !held.allowed {
			t.Errorf("%s waits, though all have a place", held.pod.Name)
		}
	}
	if len(l.held) != 2 || l.gangs.stateOf(g).Waiting != 0 || !l.gangs.stateOf(g).FailedAt().IsZero() {
		t.Errorf("%d were held, %d wait still; the gang that started failed at %v", len(l.held), l.gangs.stateOf(g).Waiting, l.gangs.stateOf(g).FailedAt())
	}
}

// TestOneThatLosesItsPlaceTakesTheOthersAlong while they wait, and not when they were let go.
func TestOneThatLosesItsPlaceTakesTheOthersAlong(t *testing.T) {
	l := newLab(t, 3)
	l.group("g", map[string]any{"minMember": int64(3)})
	a, b := l.member("a"), l.member("b")
	l.member("c")
	l.try(a)
	l.try(b)
	l.Unreserve(t.Context(), nil, a, "n0")
	if l.held[1].refused != reasonLost {
		t.Error("b keeps its place")
	}
	if reason, waits := l.try(l.member("c")); !waits {
		t.Errorf("c does not count a and b as gone: %q", reason)
	}
}

// TestWhatIsKeptShrinks: names of gangs that users made up are forgotten with their pods.
func TestWhatIsKeptShrinks(t *testing.T) {
	l := newLab(t, 1)
	for i := range 100 {
		name := fmt.Sprint("g", i)
		l.group(name, map[string]any{"minMember": int64(2)})
		of := func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = name }
		a, b := l.member("a-"+name, of), l.member("b-"+name, of, boundTo("n0"))
		l.podChanged(b)
		l.try(a)
		l.PostFilter(t.Context(), framework.NewCycleState(), a, nil)
		for _, pod := range []*corev1.Pod{a, b} {
			l.must(l.pods.Delete(pod))
			l.podGone(pod)
		}
		l.PostFilter(t.Context(), framework.NewCycleState(), a, nil) // its cycle was still under way
	}
	if len(l.gangs.states)+len(l.gangs.places) > 0 {
		t.Errorf("%d gangs and %d pods are kept after all have gone", len(l.gangs.states), len(l.gangs.places))
	}
}

// TestGangsThatNeverHadAPlaceAreForgotten, too: who makes and deletes gangs for which there is no room must not fill the memory.
func TestGangsThatNeverHadAPlaceAreForgotten(t *testing.T) {
	tests := map[string]struct {
		owner func(i int) types.UID
		stays bool // a pod of another controller has the same label
		want  int
	}{
		"pods that are all deleted":                    {func(int) types.UID { return "job" }, false, 0},
		"pods of Jobs that one CronJob makes in turn":  {func(i int) types.UID { return types.UID(fmt.Sprint("job-", i)) }, true, 1},
		"pods that nobody made":                        {func(int) types.UID { return "" }, false, 0},
		"pods that nobody made, beside those of a Job": {func(int) types.UID { return "" }, true, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			l.group("g", map[string]any{"minMember": int64(2)})
			if test.stays {
				l.try(l.member("stays", ownedBy("other")))
			}
			for i := range 10 {
				pod := l.member(fmt.Sprint("p", i), ownedBy(test.owner(i)))
				if test.owner(i) == "" {
					pod.OwnerReferences = nil
				}
				if reason, _ := l.try(pod); reason == "" {
					t.Fatal("one of two begins")
				}
				l.must(l.pods.Delete(pod))
				l.podGone(pod)
			}
			if got := len(l.gangs.states); got != test.want {
				t.Errorf("%d gangs are kept, want %d", got, test.want)
			}
		})
	}
}

// TestMembersGoOnWhenTheirGangBecomesWholeElsewhere: they are not woken by a cycle of their own.
func TestMembersGoOnWhenTheirGangBecomesWholeElsewhere(t *testing.T) {
	changes := map[string]func(*lab, *corev1.Pod){
		"a sibling was bound by the leader before": func(l *lab, sibling *corev1.Pod) {
			there := sibling.DeepCopy()
			boundTo("n1")(there)
			l.must(l.pods.Update(there))
			l.podChanged(there)
		},
		"the PodGroup asks for fewer": func(l *lab, _ *corev1.Pod) {
			before := l.groups.GetGroup(mustGroup(l.held[0].pod))
			l.group("g", map[string]any{"minMember": int64(1)})
			l.groupChanged(before, l.groups.GetGroup(mustGroup(l.held[0].pod)))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.group("g", map[string]any{"minMember": int64(2)})
			sibling := l.member("b")
			if _, waits := l.try(l.member("a")); !waits {
				t.Fatal("the first does not wait")
			}
			change(l, sibling)
			if !l.held[0].allowed {
				t.Error("the first waits still")
			}
		})
	}
}

// TestNobodyIsEvictedForAMember has preemption try a member on a node from which pods were taken away.
func TestNobodyIsEvictedForAMember(t *testing.T) {
	l := newLab(t, 2)
	l.group("g", map[string]any{"minMember": int64(2)})
	l.member("b")
	pod, state := l.member("a"), framework.NewCycleState()
	if _, status := l.PreFilter(t.Context(), state, pod, l.infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	trial := state.Clone()
	if status := l.RemovePod(t.Context(), trial, pod, nil, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := l.Filter(t.Context(), trial, pod, nil); !status.IsRejected() {
		t.Errorf("on a node whose pods are evicted: %v, want a rejection", status)
	}
	if status := l.Filter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Errorf("on a node as it is: %v", status)
	}
}

func TestTimeouts(t *testing.T) {
	tests := map[string]struct {
		group any
		args  args
		want  time.Duration
	}{
		"the PodGroup's":                       {int64(7), args{timeout: 30 * time.Second}, 7 * time.Second},
		"the profile's":                        {nil, args{timeout: 30 * time.Second}, 30 * time.Second},
		"zero is the profile's":                {int64(0), args{timeout: 30 * time.Second}, 30 * time.Second},
		"that of scheduler-plugins":            {nil, args{}, time.Minute},
		"more than kube-scheduler lets it be":  {int64(3_000_000_000), args{}, 15 * time.Minute},
		"more than fits in Go's own durations": {int64(1) << 62, args{}, 15 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.args = tc.args
			l.group("g", map[string]any{"minMember": int64(2), "scheduleTimeoutSeconds": tc.group})
			l.member("b")
			if _, got := l.Permit(t.Context(), framework.NewCycleState(), l.member("a"), "n0"); got != tc.want {
				t.Errorf("waits for %s, want %s", got, tc.want)
			}
		})
	}
}

// TestArgumentsOfSchedulerPlugins mean here what they mean there.
func TestArgumentsOfSchedulerPlugins(t *testing.T) {
	two := map[string]any{"minMember": int64(2)}
	t.Run("podGroupBackoffSeconds", func(t *testing.T) {
		l := newLab(t, 2)
		l.args.backoff = time.Minute
		l.group("g", two)
		a := l.member("a")
		l.member("b")
		l.PostFilter(t.Context(), framework.NewCycleState(), a, nil)
		if reason, _ := l.try(a); reason != reasonBackoff {
			t.Errorf("turned away with %q, want %q", reason, reasonBackoff)
		}
	})
	t.Run("podGroupBackoffSeconds, with members that are tried all the while", func(t *testing.T) {
		l := newLab(t, 2)
		now := time.Now()
		l.args.backoff, l.now = time.Minute, func() time.Time { return now }
		l.group("g", two)
		a := l.member("a")
		l.member("b")
		l.PostFilter(t.Context(), framework.NewCycleState(), a, nil)
		for range 6 {
			now = now.Add(11 * time.Second)
			if reason, _ := l.try(a); reason == "" {
				return
			}
			l.PostFilter(t.Context(), framework.NewCycleState(), a, nil) // kube-scheduler calls it for a pod that was turned away, too
		}
		t.Error("the gang backs off for longer than podGroupBackoffSeconds")
	})
	t.Run("podGroupRejectPercentage", func(t *testing.T) {
		l := newLab(t, 2)
		l.args.tolerance = 50
		l.group("g", two)
		b := l.member("b")
		l.try(l.member("a"))
		l.PostFilter(t.Context(), framework.NewCycleState(), b, nil)
		if l.held[0].refused != "" {
			t.Error("a gives up its place, though no more than half of the members are missing")
		}
	})
}

// TestAGangThatHasBegunComesFirst among pods of its priority, so that no other takes the places of its siblings: also where
// another leader bound the first of them.
func TestAGangThatHasBegunComesFirst(t *testing.T) {
	for name, tell := range map[string]func(*lab, *corev1.Pod){
		"by this process":   nil,
		"by another leader": func(l *lab, first *corev1.Pod) { l.podChanged(first) },
		"by another leader, before its PodGroup is known": func(l *lab, first *corev1.Pod) { l.groupChanged(nil, l.groups.GetGroup(mustGroup(first))) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.group("g", map[string]any{"minMember": int64(2)}, func(g *unstructured.Unstructured) {
				g.SetCreationTimestamp(metav1.NewTime(noon))
			})
			other := queued(t, fixture.Pod("other").Obj(), noon.Add(-time.Hour))
			first, second := l.member("a"), queued(t, l.member("b"), noon)
			l.PreEnqueue(t.Context(), queuedPod(second))
			if l.Less(second, other) {
				t.Error("a later gang comes before it has begun")
			}
			if tell != nil {
				first = l.member("a", boundTo("n0"))
				tell(l, first)
			} else {
				l.try(first)
			}
			if l.Less(second, other) {
				t.Error("a pod that is in the queue changes its place there")
			}
			l.PreEnqueue(t.Context(), queuedPod(second))
			if !l.Less(second, other) || l.Less(other, second) {
				t.Error("another pod comes before the sibling of a member that has a place")
			}
			l.must(l.pods.Delete(first))
			l.podGone(first)
			l.PreEnqueue(t.Context(), queuedPod(second))
			if l.Less(second, other) {
				t.Error("a gang without any place is still taken to have begun")
			}
		})
	}
}

// TestSiblingsAreQueuedAsThoseOfAGangThatHasBegun: the queue sorts a pod when it is put there, and not again.
func TestSiblingsAreQueuedAsThoseOfAGangThatHasBegun(t *testing.T) {
	l := newLab(t, 2)
	l.group("g", map[string]any{"minMember": int64(2)})
	a := l.member("a")
	l.member("b")
	begun := false
	l.onActivate = func() { begun = l.gangs.hasBegun(gang{group: mustGroup(a), owner: "job"}, 2) }
	if _, waits := l.try(a); !waits {
		t.Fatal("the first does not wait")
	}
	if tried := l.tried(); len(tried) != 1 || !begun {
		t.Errorf("%v are queued, begun: %t", tried, begun)
	}
}

func mustGroup(pod *corev1.Pod) types.NamespacedName {
	name, _ := pkggang.NamedGroup(pod)
	return name
}

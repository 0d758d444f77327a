package coscheduling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

// ofRank is a member of an indexed Job.
func ofRank(rank int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(rank)}
	}
}

// ranks makes members of an indexed Job.
func (l *lab) ranks(from, to int) (pods []*corev1.Pod) {
	for rank := from; rank < to; rank++ {
		pods = append(pods, l.member(fmt.Sprint("m", rank), ofRank(rank)))
	}
	return pods
}

// settleAll has members take their places, the last one first, and returns these in their order.
func (l *lab) settleAll(pods []*corev1.Pod) string {
	on := make([]string, len(pods))
	for i := len(pods) - 1; i >= 0; i-- {
		on[i] = l.settle(pods[i])
	}
	return strings.Join(on, " ")
}

func TestAGangLiesInSegments(t *testing.T) {
	tests := map[string]struct {
		layout  string
		nodes   int
		busy    []int
		members int
		want    string // the nodes of the members by rank, or what they are told
	}{
		"each in one rack":                           {layout: "required=rack;segment=2", nodes: 6, busy: []int{1}, members: 4, want: "n2 n3 n4 n5"},
		"the last is smaller":                        {layout: "required=rack;segment=2", nodes: 6, busy: []int{1}, members: 5, want: "n2 n3 n4 n5 n0"},
		"one in each, as one of all has no rack":     {layout: "required=rack;segment=1", nodes: 4, busy: []int{1, 3}, members: 2, want: "n0 n2"},
		"all of it is less than a segment":           {layout: "required=rack;segment=16", nodes: 4, busy: []int{1}, members: 2, want: "n2 n3"},
		"no second rack has room now":                {layout: "required=rack;segment=2", nodes: 6, busy: []int{1, 3}, members: 4, want: "gang: only 1 of 2 segments have room in one rack each now; the most for the next is 1 of 2 in r0"},
		"none ever":                                  {layout: "required=rack;segment=3", nodes: 4, members: 3, want: "gang: only 0 of 1 segments fit into one rack each, even when all are empty; the most for the next is 2 of 3 in r0"},
		"no label names racks":                       {layout: "required=zone;segment=2", nodes: 4, members: 4, want: "gang: no node that suits it has the label topology.kubernetes.io/zone, which would name its zone"},
		"in one rack each where that is preferred":   {layout: "preferred=rack;segment=2", nodes: 6, busy: []int{1}, members: 4, want: "n2 n3 n4 n5"},
		"wherever there is room, if it is preferred": {layout: "preferred=rack;segment=2", nodes: 6, busy: []int{1, 3}, members: 4, want: "n0 n2 n4 n5"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, tc.nodes, tc.busy...)
			l.group("g", map[string]any{"minMember": int64(tc.members)}, laidOut(tc.layout))
			pods := l.ranks(0, tc.members)
			if strings.HasPrefix(tc.want, "gang: ") {
				if _, nodes, reason := l.aim(pods[0]); reason != tc.want {
					t.Errorf("may go to %v, told %q, want %q", nodes, reason, tc.want)
				}
				return
			}
			if got := l.settleAll(pods); got != tc.want {
				t.Errorf("the members are on %s, want %s", got, tc.want)
			}
		})
	}
}

// TestMembersThatAreMoreThanItTakesKeepNobodyOut: those of the lowest ranks get the racks that there are.
func TestMembersThatAreMoreThanItTakesKeepNobodyOut(t *testing.T) {
	l := newRacks(t, 6, 1)
	l.group("g", map[string]any{"minMember": int64(4)}, laidOut("required=rack;segment=2"))
	pods := l.ranks(0, 6)
	if got := l.settleAll(pods[:4]); got != "n2 n3 n4 n5" {
		t.Errorf("the members are on %s", got)
	}
	if _, nodes, reason := l.aim(pods[4]); !slices.Equal(nodes, []string{"n0", "n1"}) {
		t.Errorf("another one may go to %v, told %q", nodes, reason)
	}
}

func TestALauncherIsNoPartOfASegment(t *testing.T) {
	l := newRacks(t, 6, 0)
	l.group("g", map[string]any{"minMember": int64(5)}, laidOut("required=rack;segment=2"))
	pods := []*corev1.Pod{l.member("mpi-launcher-x7k2p", smaller(1))}
	for i := range 4 {
		pods = append(pods, l.member(fmt.Sprint("mpi-worker-", i)))
	}
	if got := l.settleAll(pods); got != "n1 n2 n3 n4 n5" {
		t.Errorf("launcher and workers are on %s", got)
	}
}

// TestAMemberThatComesBackIsOfItsSegment, also where that is only preferred, as long as there is room.
func TestAMemberThatComesBackIsOfItsSegment(t *testing.T) {
	tests := map[string]struct {
		layout string
		busy   []int
		want   []string
	}{
		"it has to":                             {"required=rack;segment=2", []int{0, 2, 4}, []string{"n2", "n3"}},
		"it has to, though there is no room":    {"required=rack;segment=2", []int{0, 2, 3, 4}, []string{"n2", "n3"}},
		"it is preferred":                       {"preferred=rack;segment=2", []int{0, 2, 4}, []string{"n2", "n3"}},
		"it is preferred, and there is no room": {"preferred=rack;segment=2", []int{0, 2, 3, 4}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 8, tc.busy...)
			l.group("g", map[string]any{"minMember": int64(4)}, laidOut(tc.layout))
			for rank, node := range map[int]string{0: "n0", 2: "n2", 1: "n4"} {
				l.member(fmt.Sprint("m", rank), ofRank(rank), boundTo(node))
			}
			if _, nodes, reason := l.aim(l.member("back", ofRank(3))); reason != "" || !slices.Equal(nodes, tc.want) {
				t.Errorf("may go to %v, told %q; want %v", nodes, reason, tc.want)
			}
		})
	}
}

// TestAMemberThatIsRefusedInItsSegmentGoesElsewhere, where that is only preferred: another plugin may know of a volume. Nobody is
// evicted there for it.
func TestAMemberThatIsRefusedInItsSegmentGoesElsewhere(t *testing.T) {
	l := newRacks(t, 6, 0)
	l.group("g", map[string]any{"minMember": int64(2)}, laidOut("preferred=rack;segment=2"))
	l.member("m0", ofRank(0), boundTo("n0"))
	back := l.member("back", ofRank(1))
	cs, nodes, _ := l.aim(back)
	if !slices.Equal(nodes, []string{"n0", "n1"}) {
		t.Fatalf("may go to %v", nodes)
	}
	tries := cs.Clone()
	l.RemovePod(t.Context(), tries, back, nil, l.infos[1])
	if status := l.Filter(t.Context(), tries, back, l.infos[1]); status.IsSuccess() {
		t.Error("others would be evicted for it")
	}
	l.PostFilter(t.Context(), cs, back, nil)
	if tried := l.tried(); !slices.Equal(tried, []string{"ns/back"}) {
		t.Errorf("%v are tried", tried)
	}
	if _, nodes, reason := l.aim(back); nodes != nil || reason != "" {
		t.Errorf("after that it may go to %v, told %q", nodes, reason)
	}
	l.gangs.movePod(gangOf(back, l.groups.GetGroup(mustGroup(back))), back.UID, "n5", phase.WaitingStage)
	l.gangs.forgetPod(back.UID)
	if _, nodes, _ := l.aim(back); !slices.Equal(nodes, []string{"n0", "n1"}) {
		t.Errorf("when it had a place and lost it, it may go to %v", nodes)
	}
}

// TestANewSegmentOfAGangThatStands lies in the tightest rack for all of it, or where the most have room.
func TestANewSegmentOfAGangThatStands(t *testing.T) {
	for name, tc := range map[string]struct {
		busy []int
		want []string
		told string
	}{
		"room for all":  {[]int{0, 1, 2}, []string{"n4", "n5"}, ""},
		"room for one":  {[]int{0, 1, 2, 4}, []string{"n2", "n3"}, ""},
		"room for none": {[]int{0, 1, 2, 3, 4, 5}, nil, "gang: only 1 of 2 segments have room in one rack each now; the most for the next is 0 of 2 in r0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 6, tc.busy...)
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut("required=rack;segment=2"))
			l.member("m0", ofRank(0), boundTo("n0"))
			l.member("m1", ofRank(1), boundTo("n1"))
			pods := l.ranks(2, 4)
			if _, nodes, reason := l.aim(pods[1]); reason != tc.told || !slices.Equal(nodes, tc.want) {
				t.Errorf("may go to %v, told %q; want %v, %q", nodes, reason, tc.want, tc.told)
			}
		})
	}
}

// TestHalfAGangIsCompletedInItsSegments, as a new leader finds it.
func TestHalfAGangIsCompletedInItsSegments(t *testing.T) {
	l := newRacks(t, 8, 2, 5)
	l.group("g", map[string]any{"minMember": int64(5)}, laidOut("required=rack;segment=2"))
	l.member("m3", ofRank(3), boundTo("n2"))
	l.member("m0", ofRank(0), boundTo("n5"))
	pods := []*corev1.Pod{l.member("m1", ofRank(1)), l.member("m2", ofRank(2)), l.member("m4", ofRank(4))}
	if got := l.settleAll(pods); got != "n4 n3 n0" {
		t.Errorf("members 1, 2 and 4 are on %s", got)
	}
}

// TestMembersWithoutAPlanStayInTheRackOfTheirSegment.
func TestMembersWithoutAPlanStayInTheRackOfTheirSegment(t *testing.T) {
	l := newRacks(t, 8, 0)
	l.group("g", map[string]any{"minMember": int64(4)}, laidOut("required=rack;segment=2"))
	pods := l.ranks(0, 4)
	g := gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0])))
	l.gangs.setPlan(g, &placement.Plan{Excluded: sets.New("n1", "n4")})
	for rank, want := range [][]string{{"n2", "n3"}, {"n2", "n3"}, {"n6", "n7"}, {"n6", "n7"}} {
		if _, nodes, reason := l.aim(pods[rank]); !slices.Equal(nodes, want) || reason != "" {
			t.Errorf("rank %d may go to %v, told %q; want %v", rank, nodes, reason, want)
		}
	}
}

// TestNominationsThatPartASegmentAreNotFollowed where one rack has to hold each.
func TestNominationsThatPartASegmentAreNotFollowed(t *testing.T) {
	for layout, want := range map[string]string{"required=rack;segment=2": "n0 n1 n2 n3", "preferred=rack;segment=2": "n0 n2 n1 n3"} {
		l := newRacks(t, 4)
		l.group("g", map[string]any{"minMember": int64(4)}, laidOut(layout))
		pods := l.ranks(0, 4)
		for rank, node := range []string{"n0", "n2", "n1", "n3"} {
			pods[rank].Status.NominatedNodeName = node
		}
		if got := l.settleAll(pods); got != want {
			t.Errorf("%s: the members are on %s, want %s", layout, got, want)
		}
	}
}

// TestWhoLeavesForSegments: those whose nodes make up racks for all segments, and nobody where there are none.
func TestWhoLeavesForSegments(t *testing.T) {
	tests := map[string]struct {
		layout    string
		runs      map[int]int32 // priorities by node
		evicted   []string
		nominated []string
	}{
		"one, in the rack with a node that is idle": {layout: "required=rack;segment=2", runs: map[int]int32{0: -1, 1: -1, 3: -1}, evicted: []string{"low3"},
			nominated: []string{"m0 n2", "m1 n3", "m2 n4", "m3 n5"}},
		"nobody, as a rack is missing still": {layout: "required=rack;segment=2", runs: map[int]int32{0: 5, 2: 5, 3: -1}},
		"whoever there is, if it is preferred": {layout: "preferred=rack;segment=2", runs: map[int]int32{0: 5, 2: 5, 3: -1}, evicted: []string{"low3"},
			nominated: []string{"m0 n1", "m1 n3", "m2 n4", "m3 n5"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 6)
			l.answers()
			l.group("g", map[string]any{"minMember": int64(4)}, laidOut(tc.layout))
			for node, priority := range tc.runs {
				l.running(node, fmt.Sprint("low", node), 1, ofPriority(priority))
			}
			_, evicted, nominated := l.refuse(l.ranks(0, 4)[0])
			if diff := cmp.Diff(tc.evicted, evicted); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.nominated, nominated); diff != "" {
				t.Errorf("nominated (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichSegmentAMemberIsOf(t *testing.T) {
	named := func(names ...string) (pods []*corev1.Pod) {
		for _, name := range names {
			pod := fixture.Pod(name).Obj()
			pod.UID = types.UID(name)
			ownedBy("job")(pod)
			pods = append(pods, pod)
		}
		return pods
	}
	ranked := named("a-x", "b-x", "c-x")
	for i, rank := range []int{0, 15, 16} {
		ofRank(rank)(ranked[i])
	}
	tests := map[string]struct {
		pods []*corev1.Pod
		want []placement.Segment
	}{
		"by index":                            {ranked, []placement.Segment{{Row: "/job", Number: 0}, {Row: "/job", Number: 0}, {Row: "/job", Number: 1}}},
		"by name":                             {named("web-0", "web-15", "web-16"), []placement.Segment{{Row: "web-", Number: 0}, {Row: "web-", Number: 0}, {Row: "web-", Number: 1}}},
		"by role":                             {named("x-master-0", "x-worker-0", "x-worker-31"), []placement.Segment{{Row: "x-master-", Number: 0}, {Row: "x-worker-", Number: 0}, {Row: "x-worker-", Number: 1}}},
		"by the order of names that are made": {named("web-7c9f8-b", "web-7c9f8-22222", "-7"), []placement.Segment{{Row: "job", Number: 0}, {Row: "job", Number: 0}, {Row: "job", Number: 0}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := placement.NewSegmentAssignment(placement.Layout{Segment: 16}, tc.pods, nil)
			var got []placement.Segment
			for _, pod := range tc.pods {
				got = append(got, s.SegmentByPod[pod.UID])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("segments %v, want %v", got, tc.want)
			}
		})
	}
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("web-7c9f8-z%02d", i)
	}
	pods := named(many...)
	if s := placement.NewSegmentAssignment(placement.Layout{Segment: 16}, pods[16:], pods[:16]); s.SegmentByPod["web-7c9f8-z15"] != (placement.Segment{Row: "job", Number: 0}) || s.SegmentByPod["web-7c9f8-z32"] != (placement.Segment{Row: "job", Number: 2}) {
		t.Errorf("the last of the first segment is in %v, and the last of all in %v", s.SegmentByPod["web-7c9f8-z15"], s.SegmentByPod["web-7c9f8-z32"])
	}
}

// TestASegmentOfDifferentMembersIsNotPlanned: where one is to lie is asked for members that are alike.
func TestASegmentOfDifferentMembersIsNotPlanned(t *testing.T) {
	l := newRacks(t, 4)
	l.group("g", map[string]any{"minMember": int64(2)}, laidOut("required=rack;segment=2"))
	first := l.member("m0", ofRank(0))
	l.member("m1", ofRank(1), smaller(4))
	if _, nodes, reason := l.aim(first); reason != "gang: its members ask for too many different things to find one rack for all" {
		t.Errorf("may go to %v, told %q", nodes, reason)
	}
}

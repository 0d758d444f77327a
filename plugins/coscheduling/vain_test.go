package coscheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// TestAGangThatAnotherPluginKeepsFromWhatWasMadeFreeGoesOn: the plan knows of no free node that a plugin rejects, and what
// makes room for it has to know as much. It would hold on to both nodes forever, and evict nobody elsewhere.
func TestAGangThatAnotherPluginKeepsFromWhatWasMadeFreeGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		elsewhere int32
		evicted   []string
	}{
		"nobody may leave elsewhere": {elsewhere: 0},
		"one may":                    {elsewhere: -1, evicted: []string{"other", "small"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.answers()
			now := noon
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut("required=rack"))
			l.running(2, "other", 1, ofPriority(tc.elsewhere))
			l.running(3, "small", 1, ofPriority(-1), smaller(1))
			pods := []*corev1.Pod{l.member("a", comingTo("n0")), l.member("b", comingTo("n1"))} // others have left these
			l.gangs.changeState(gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0]))), func(s *phase.Gang) { s.RecordEvictions(now.Add(-phase.SettleTime)) })
			cs, nodes, reason := l.aim(pods[0])
			if reason != "" {
				t.Fatalf("it may go to %v, told %q", nodes, reason)
			}
			l.postFilter(cs, pods[0])                    // another plugin rejects the node
			now = now.Add(phase.BaseBackoff + time.Hour) // and nobody else is evicted for a while
			node, evicted, nominated := l.refuse(pods[0])
			if !slices.Equal(evicted, tc.evicted) || (node != "") != (tc.evicted != nil) {
				t.Errorf("%v are evicted for a place on %q, want %v", evicted, node, tc.evicted)
			}
			if want := []string{"a null", "b null"}; tc.evicted == nil && !slices.Equal(nominated, want) {
				t.Errorf("nominated: %v, want %v", nominated, want)
			}
			if tc.evicted != nil {
				return
			}
			if _, _, reason := l.aim(pods[0]); reason != "" {
				t.Errorf("it does not begin anew, told %q", reason)
			}
		})
	}
}

func comingTo(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.NominatedNodeName = node }
}

// TestWhoEvictsNobodyForAWhileKeepsNoNode: nominations keep others out, and that would be for an hour. While the evictions settle
// the gang keeps them, as another order of its members may do.
func TestWhoEvictsNobodyForAWhileKeepsNoNode(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	now := noon
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(2)})
	pods := []*corev1.Pod{l.member("a", comingTo("n0")), l.member("b", comingTo("n1"))}
	g := gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0])))
	l.gangs.changeState(g, func(s *phase.Gang) { s.RecordEvictions(noon) })
	l.gangs.changeKnown(g, func(s *phase.Gang) { s.BackOffPreemption(noon) }) // the nodes were free, and another plugin has rejected one
	l.running(0, "next", 1, ofPriority(-1))
	if node, evicted, _ := l.refuse(pods[0]); node != "n0" || len(evicted) > 0 {
		t.Errorf("%v are evicted for a place on %q while the evictions settle, want n0 kept", evicted, node)
	}
	now = noon.Add(phase.SettleTime)
	node, evicted, _ := l.refuse(pods[0])
	if ended := l.ended(); node != "" || len(evicted) > 0 || !slices.Equal(ended, []string{"a", "b"}) {
		t.Errorf("%v are evicted for a place on %q, and the nominations of %v end, want those of both", evicted, node, ended)
	}
}

// TestWhoEvictedInVainEvictsNobodyForAWhile: what kept the gang out would keep it out again. It is longer each time.
func TestWhoEvictedInVainEvictsNobodyForAWhile(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	now := time.Now()
	l.now = func() time.Time { return now }
	pods := []*corev1.Pod{l.member("a"), l.member("b")}
	empty := slices.Clone(l.infos)
	wait := phase.BaseBackoff
	for round := range 8 {
		l.running(0, fmt.Sprint("low", round), 1, ofPriority(-1))
		if _, evicted, _ := l.refuse(pods[0]); len(evicted) != 1 {
			t.Fatalf("round %d: %v are evicted", round, evicted)
		}
		l.infos = slices.Clone(empty)
		cs, _, reason := l.aim(pods[0])
		if reason != "" {
			t.Fatalf("round %d: there is room, told %q", round, reason)
		}
		l.PostFilter(t.Context(), cs, pods[0], nil) // another plugin rejects it
		l.running(0, fmt.Sprint("next", round), 1, ofPriority(-1))
		now = now.Add(wait - time.Second)
		if _, evicted, _ := l.refuse(pods[0]); len(evicted) > 0 {
			t.Fatalf("round %d: %v are evicted after %s", round, evicted, wait-time.Second)
		}
		now = now.Add(2 * time.Second)
		l.infos = slices.Clone(empty)
		wait = min(2*wait, phase.MaxBackoff)
	}
}

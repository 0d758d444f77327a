package coscheduling

import (
	"testing"
)

// TestAnAttemptOfAVeryLargeGangIsBounded: for a gang of 1,000 whole nodes 8,000 pods have to leave. The nodes that are looked at are counted once for
// each pod on them and a few times more, so that an attempt takes a multiple of the pods that it is about, and all of them are done with after a
// few attempts.
func TestAnAttemptOfAVeryLargeGangIsBounded(t *testing.T) {
	const members, each = 1_000, 8
	l := smallJobs(t, 2*members, 40)
	var amounts, pods int
	for node := range l.infos {
		l.infos[node] = readings{l.infos[node], &amounts, &pods}
	}
	first := l.largeGang(members, "")
	group := l.groups.GetGroup(mustGroup(first))
	area := members + extraAreaMembers
	for attempt := 1; ; attempt++ {
		amounts, pods = 0, 0
		m := l.membersOf(first, group)
		move, back := l.findPreemption(t.Context(), gangOf(first, group), group, &m, l.newSnapshot(l.infos), nil)
		asks := 2 // of a member: itself, and its GPUs
		if most := 2*members*(asks+1) + asks*area*(each+3) + asks*extraAreaMembers*each; attempt > 2 && amounts > most {
			t.Errorf("attempt %d reads what nodes offer %d times, want %d at most", attempt, amounts, most)
		}
		if most := stepsPerPod * each * area; back.podsSearched > most {
			t.Errorf("attempt %d takes %d steps, want %d at most", attempt, back.podsSearched, most)
		}
		if move != nil {
			if len(move.victims) != each*members {
				t.Errorf("%d leave, want %d", len(move.victims), each*members)
			}
			t.Logf("%d attempts; the last reads what nodes offer %d times, and who is on them %d times", attempt, amounts, pods)
			return
		}
		if !back.unfinished || attempt == 10 {
			t.Fatalf("nobody leaves after %d attempts: %+v", attempt, back)
		}
	}
}

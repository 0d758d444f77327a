package phase

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestPhaseFollowsFromState has each phase, in the order in which one hides another.
func TestPhaseFollowsFromState(t *testing.T) {
	failed := func(g *Gang) { g.RecordFailure(noon, time.Second) }
	for name, tc := range map[string]struct {
		change []func(*Gang)
		want   Phase
	}{
		"nothing is known":               {want: Pending},
		"a member found no place":        {change: []func(*Gang){failed}, want: BackingOff},
		"members still arrive":           {change: []func(*Gang){failed, func(g *Gang) { g.SetAssembling(true) }}, want: Assembling},
		"victims leave":                  {change: []func(*Gang){failed, func(g *Gang) { g.RecordEvictions(noon) }}, want: Preempting},
		"evictions are being written":    {change: []func(*Gang){(*Gang).BeginWrites}, want: Preempting},
		"members are bound, others not":  {change: []func(*Gang){failed, bind(2)}, want: PartiallyBound},
		"all members have places":        {change: []func(*Gang){bind(1), pass(1)}, want: Binding},
		"members wait for the others":    {change: []func(*Gang){bind(1), pass(1), hold(1)}, want: Starting},
		"all members are bound":          {change: []func(*Gang){bind(3), whole(3)}, want: Running},
		"one of a whole gang restarts":   {change: []func(*Gang){bind(3), whole(3), bind(-1)}, want: Running},
		"one of a whole gang is evicted": {change: []func(*Gang){bind(3), whole(3), bind(-1), func(g *Gang) { g.RecordLostMember(3) }}, want: PartiallyBound},
		"all of a whole gang are gone":   {change: []func(*Gang){bind(3), whole(3), bind(-3), (*Gang).RecordLeft}, want: Pending},
		"another plugin rejected one": {change: []func(*Gang){func(g *Gang) { g.RecordRejection("ports", noon) }},
			want: BackingOff},
	} {
		t.Run(name, func(t *testing.T) {
			var g Gang
			for _, change := range tc.change {
				change(&g)
			}
			if got := g.PhaseAt(noon); got != tc.want {
				t.Errorf("phase %s, want %s", got, tc.want)
			}
		})
	}
}

func bind(count int) func(*Gang) { return func(g *Gang) { g.Bound += count } }
func pass(count int) func(*Gang) { return func(g *Gang) { g.Passed += count } }
func hold(count int) func(*Gang) { return func(g *Gang) { g.Waiting += count } }
func whole(want int) func(*Gang) { return func(g *Gang) { g.RecordBound("a", want, false) } }

// TestBackoffEndsByTime says that no event ends it.
func TestBackoffEndsByTime(t *testing.T) {
	var g Gang
	g.RecordFailure(noon, 10*time.Second)
	g.RecordFailure(noon.Add(5*time.Second), 10*time.Second) // during the backoff, which it does not extend
	for after, want := range map[time.Duration]Phase{0: BackingOff, 10*time.Second - 1: BackingOff, 10 * time.Second: Pending} {
		if got := g.PhaseAt(noon.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
}

// TestStartHoldSaysWhatKeepsAGang in the order of what comes first.
func TestStartHoldSaysWhatKeepsAGang(t *testing.T) {
	var g Gang
	g.RecordRejection("ports are taken", noon)
	g.RecordLostPlace("a", "denied", noon)
	g.HoldBackStart()
	for name, tc := range map[string]struct {
		others Standing
		at     time.Duration
		want   Reason
	}{
		"all wait":                        {want: PlaceLost},
		"some are bound":                  {others: Standing{Bound: 1, Placed: 1}, want: FilterRejected},
		"some hold places":                {others: Standing{Bound: 1, Placed: 2}, want: NoReason},
		"the rejection is over":           {others: Standing{Bound: 1, Placed: 1}, at: FirstRejectionBackoff, want: NoReason},
		"the backoff of the place is":     {at: BaseBackoff, want: NoReason},
		"a moment before it is, all wait": {at: BaseBackoff - 1, want: PlaceLost},
	} {
		if got := g.StartHold(noon.Add(tc.at), tc.others); got.Reason != tc.want || (got.Why == "") != (tc.want == NoReason) {
			t.Errorf("%s: held by %q with the message %q, want %q", name, got.Reason, got.Why, tc.want)
		}
	}
}

// TestAgendaHasOneAttemptForEachReason of which the earliest is the next.
func TestAgendaHasOneAttemptForEachReason(t *testing.T) {
	var a Agenda
	a.PlanAttempt(SearchTurn, noon.Add(time.Minute))
	a.PlanAttempt(MemberFailed, noon.Add(time.Second))
	if a.PlanAttempt(MemberFailed, noon.Add(time.Second)) {
		t.Error("the same time for the same reason is news")
	}
	if got, want := a.EarliestAttempt(), (NextAttempt{At: noon.Add(time.Second), Reason: MemberFailed}); got != want {
		t.Errorf("the next attempt is %v, want %v", got, want)
	}
	a.PlanAttempt(MemberFailed, noon.Add(time.Hour)) // in place of the first
	if got := a.TakeDue(noon.Add(time.Minute)); !slices.Equal(got, []Reason{SearchTurn}) {
		t.Errorf("%v are due, want %v alone", got, SearchTurn)
	}
	if got := a.TakeDue(noon.Add(time.Minute)); len(got) > 0 {
		t.Errorf("%v are due again", got)
	}
	if got := a.EarliestAttempt(); got.Reason != MemberFailed {
		t.Errorf("then comes %v, want %v", got.Reason, MemberFailed)
	}
	a.TakeDue(noon.Add(time.Hour))
	if got := a.EarliestAttempt(); got != (NextAttempt{}) {
		t.Errorf("%v comes after all", got)
	}
}

// TestPreemptionBacksOffLongerEachTime up to an hour, and starts over once the gang is bound.
func TestPreemptionBacksOffLongerEachTime(t *testing.T) {
	var g Gang
	now, want := noon, BaseBackoff
	for range 10 {
		g.RecordEvictions(now)
		g.BackOffPreemption(now)
		if holds, _ := g.PreemptionHold(now.Add(want - 1)); !holds {
			t.Fatalf("it evicts before %s are over", want)
		}
		if now = now.Add(want); g.preemptionBackoff.Until != now {
			t.Fatalf("it backs off until %s, want %s", g.preemptionBackoff.Until, now)
		}
		want = min(2*want, MaxBackoff)
	}
	g.Bound = 2
	g.RecordBound("a", 2, false)
	g.RecordEvictions(now)
	if g.BackOffPreemption(now); g.preemptionBackoff.Duration != BaseBackoff {
		t.Errorf("it backs off for %s after it ran, want %s", g.preemptionBackoff.Duration, BaseBackoff)
	}
}

// TestPartialTimeBeginsAnew when a gang is partially bound again.
func TestPartialTimeBeginsAnew(t *testing.T) {
	var g Gang
	first, again := g.BeginPartial(noon), g.BeginPartial(noon.Add(time.Second))
	if g.EndPartial(); first != noon || again != noon {
		t.Errorf("partially bound since %s and %s, want since it was found at %s", first, again, noon)
	}
	if since := g.BeginPartial(noon.Add(time.Minute)); since != noon.Add(time.Minute) {
		t.Errorf("partially bound since %s, want since it was found again", since)
	}
}

// TestDescribeAnswersInOneLine what state a gang is in, what it waits for, and what wakes it.
func TestDescribeAnswersInOneLine(t *testing.T) {
	var g Gang
	g.RecordFailure(noon, 10*time.Second)
	g.PlanAttempt(MemberFailed, noon.Add(10*time.Second))
	want := "BackingOff: waits for its next attempt; tried at 2026-11-01T12:00:10Z: the backoff after a member found no place ends"
	if got := g.DescribeState(noon); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestArchitectureShowsTheTable: readers look for it there.
func TestArchitectureShowsTheTable(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for phase, of := range table {
		line := fmt.Sprintf("| `%s` | %s | %s |", Phase(phase), of.waitsFor, of.wokenBy)
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/architecture.md lacks the row\n%s", line)
		}
	}
	for reason := MemberFailed; reason < reasonCount; reason++ {
		if !strings.Contains(string(page), reason.String()) {
			t.Errorf("docs/architecture.md does not say that a gang is tried when %s", reason)
		}
	}
}

package phase

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Gang is the state of one gang. The zero value is a gang of which nothing is known yet. It is copied to be read.
type Gang struct {
	// Waiting members have a place and wait in Permit for the others. Passed members were admitted and are being bound. Bound members were
	// reported by the API server.
	Waiting, Passed, Bound int
	// liveMembers is the number of members at the last count, less those that may have left since: a lower bound.
	liveMembers int
	// whole says that the gang was seen whole, and has had bound members ever since. wholeSize is its size then.
	whole     bool
	wholeSize int
	// partial says that it was found partially bound, and has not been whole since. partialSince is since when some members are bound without
	// room for the others; zero otherwise. partialRefused says that the time began with the refusal of a member.
	partial        bool
	partialSince   time.Time
	partialRefused bool
	// isAssembling says that members are held out of the queue, as others are still to come.
	isAssembling bool
	// queuedBehind is until when other pods come before the gang, after all of its members were activated.
	queuedBehind time.Time

	starting
	preempting
	Agenda
}

// Stage is how far a member with a place has come.
type Stage int

// The stages, in their order.
const (
	NoPlace Stage = iota
	WaitingStage
	PassedStage
	BoundStage
)

// MoveMember counts a member that comes from one stage to another.
func (g *Gang) MoveMember(from, to Stage) {
	g.countStage(from, -1)
	g.countStage(to, 1)
}

func (g *Gang) countStage(stage Stage, by int) {
	switch stage {
	case WaitingStage:
		g.Waiting += by
	case PassedStage:
		g.Passed += by
	case BoundStage:
		g.Bound += by
	}
}

// CountPlaced returns how many members have a place.
func (g Gang) CountPlaced() int { return g.Waiting + g.Passed + g.Bound }

// HasBegun reports whether some members have a place, but fewer than the gang needs, or than it had when it was whole.
func (g Gang) HasBegun(want int) bool {
	if g.whole { // members added by a later enlargement are queued like any other pod
		want = min(want, g.wholeSize)
	}
	return g.CountPlaced() > 0 && g.CountPlaced() < want
}

// IsComplete reports whether as many members have a place as the gang needs.
func (g Gang) IsComplete(want int) bool { return want > 0 && g.CountPlaced() >= want }

// RecordBound records that a member is known to be bound, of a gang that needs so many. That lets a process know whether a gang was ever whole.
// lostIsBound says that the member that lost its place last is bound by now.
func (g *Gang) RecordBound(pod types.UID, want int, lostIsBound bool) {
	isWhole := g.Bound >= want
	if g.lostPlace.pod == pod || isWhole && !g.whole && (g.lostPlace.pod == "" || lostIsBound) {
		g.clearPreemptionBackoff()
	}
	if isWhole {
		g.whole, g.wholeSize, g.partial = true, want, false
		g.EndPartial()
	}
}

// RecordWholeSize records that the gang was whole with so many members, unless this process has seen it whole.
func (g *Gang) RecordWholeSize(members int) {
	if !g.whole {
		g.whole, g.wholeSize = true, members
	}
}

// RecordLeft records that a member has left its place: once none is bound, the next start is a new one.
func (g *Gang) RecordLeft() {
	if g.Bound == 0 {
		g.whole, g.partial = false, false
		g.EndPartial()
	}
}

// MarkPartial records that the gang is partially bound and was never whole.
func (g *Gang) MarkPartial() { g.partial = true }

// WasWhole reports whether the gang was seen whole, and has had bound members ever since.
func (g Gang) WasWhole() bool { return g.whole }

// IsPartial reports whether the gang was found partially bound, and not whole since.
func (g Gang) IsPartial() bool { return g.partial }

// MayBeGone records that a member may have left, and reports whether it may have been the last: no member has a place, and as many have left
// as there were.
func (g *Gang) MayBeGone() bool {
	g.liveMembers--
	return g.CountPlaced() == 0 && g.liveMembers <= 0
}

// SetLiveMembers sets the number of members.
func (g *Gang) SetLiveMembers(count int) { g.liveMembers = count }

// SetAssembling records whether members are held out of the queue, as others are still to come.
func (g *Gang) SetAssembling(is bool) { g.isAssembling = is }

// QueueBehind puts the gang behind other pods until a time, unless it is behind them for longer.
func (g *Gang) QueueBehind(until time.Time) {
	if until.After(g.queuedBehind) {
		g.queuedBehind = until
	}
}

// QueuedBehind returns until when other pods come before the gang; zero for none.
func (g Gang) QueuedBehind() time.Time { return g.queuedBehind }

// DescribeState returns the state of the gang in one line: its phase, what it waits for, and when it is tried next and why.
func (g Gang) DescribeState(now time.Time) string {
	at := g.PhaseAt(now)
	text := fmt.Sprintf("%s: waits for %s", at, at.WaitsFor())
	if next := g.EarliestAttempt(); next.Reason != NoReason {
		text += fmt.Sprintf("; tried at %s: %s", next.At.UTC().Format(time.RFC3339), next.Reason)
	}
	return text
}

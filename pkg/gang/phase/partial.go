package phase

import "time"

// CompleteWithin is how long a gang may hold some of its places without room for the others before it gives them up.
const CompleteWithin = 5 * time.Second

// Part is what the pods of a gang show when one of its members found no place.
type Part struct {
	// IsHalf says that fewer members are bound than the gang needs, and that it does not work on without the others.
	IsHalf bool
	// AwaitedUntil is until when the places of lost members that still end are waited for, zero for none.
	AwaitedUntil time.Time
}

// DecideRelease reports whether the bound members of a gang end, as another one found no place for [CompleteWithin], and plans the next attempt
// otherwise. The time runs from the first member that found none, whichever others held places in the meantime. It begins anew after pods that
// leave for the gang, or members that it has lost, were waited for, once all members have places, and with the first refusal of one.
func (g *Gang) DecideRelease(part Part, now time.Time) bool {
	switch {
	case !part.IsHalf, g.AwaitsDepartures(now):
		g.EndPartial()
		return false
	case now.Before(part.AwaitedUntil):
		g.EndPartial()
		g.PlanAttempt(MemberEnds, part.AwaitedUntil)
		return false
	}
	if end := g.BeginPartial(now).Add(CompleteWithin); now.Before(end) {
		g.PlanAttempt(BoundInPart, end) // this member may be gone by then
		return false
	}
	if g.Passed > 0 { // the API server is still to answer for others of it, which would remain alone
		g.PlanAttempt(BoundInPart, now.Add(FirstWriteRetry))
		return false
	}
	return true
}

// BeginPartial records that the gang is partially bound at a time, and returns since when.
func (g *Gang) BeginPartial(now time.Time) (since time.Time) {
	if g.partialSince.IsZero() {
		g.partialSince = now
	}
	return g.partialSince
}

// EndPartial records that the gang is not partially bound, or its members leave.
func (g *Gang) EndPartial() { g.partialSince, g.partialRefused = time.Time{}, false }

// RecordRefusal records that a member was refused a place that it had found. The first refusal begins the time of a partially bound gang: a Binding
// may take longer than that time. Places that are found after it do not end the time.
func (g *Gang) RecordRefusal(now time.Time) {
	if !g.partialRefused {
		g.partialSince, g.partialRefused = now, true
	}
}

// IsPartialForLong reports whether the gang, of which a member is made again, has been partially bound for as long as it may be. The time begins with
// the first of these members.
func (g *Gang) IsPartialForLong(now time.Time) bool {
	if !g.partial || g.Bound == 0 || now.IsZero() {
		return false
	}
	end := g.BeginPartial(now).Add(CompleteWithin)
	if now.Before(end) {
		g.PlanAttempt(BoundInPart, end)
	}
	return !now.Before(end)
}

// RecordLostMember records that the gang has lost a bound member: if fewer remain than it needs, or than it had when it was whole, it counts as
// partially bound.
func (g *Gang) RecordLostMember(want int) {
	if g.whole {
		want = min(want, g.wholeSize)
	}
	if g.Bound > 0 && g.Bound < want {
		g.whole, g.partial = false, true
	}
}

// RecordEarlierLoss records that the gang had lost a member before this process counted the others. Unless it is seen whole, it is partially bound.
func (g *Gang) RecordEarlierLoss() {
	if !g.whole {
		g.partial = true
	}
}

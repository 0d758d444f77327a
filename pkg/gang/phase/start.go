package phase

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// FirstRejectionBackoff is the first backoff after another plugin rejected a member. It doubles each time, up to BaseBackoff.
	FirstRejectionBackoff = time.Second
	// MinRejectionBackoff is its minimum after a change of the cluster, so that a busy cluster does not cause constant retries.
	MinRejectionBackoff = 5 * time.Second
)

// starting is what keeps a gang from starting.
type starting struct {
	// failedAt is when a member last found no place, and failedUntil the end of the backoff.
	failedAt, failedUntil time.Time
	verdict               Verdict
	rejection             rejection
	lostPlace             lostPlace
}

// Verdict is the finding that there is no room, and its basis.
type Verdict struct {
	On     Basis
	Reason string
	// IsChoice says that there is room, and the gang waits for a better placement.
	IsChoice bool
}

// Basis is everything that a verdict on the room for a gang depends on.
type Basis struct {
	// Members is the fingerprint of the waiting members.
	Members uint64
	// Nodes and Generation are the state of all nodes: their number, and the latest change.
	Nodes      int
	Generation int64
	// Nominated is the fingerprint of the nominated pods.
	Nominated uint64
	// Reservations is the fingerprint of the node reservations that apply to the waiting members.
	Reservations uint64
	// StartReservations is the version of the start reservations.
	StartReservations uint64
	// Quotas changes with the GPUQuotas.
	Quotas uint64
	// Group is the PodGroup's revision.
	Group  string
	Placed int
	// ExcludedNodes is how many nodes another plugin rejected for a member.
	ExcludedNodes int
	// HoldOutUntil is until when the gang waits for a placement in one domain, zero if it does not.
	HoldOutUntil time.Time
}

// rejection is the backoff of a gang that has room, and of which another plugin rejects a member, because of affinity, ports, spread or volumes.
// An immediate retry would make its members take places and lose them without end.
type rejection struct {
	Backoff
	since time.Time
	why   string
}

// lostPlace is the pod of a gang, or the single pod, that last lost its place after a node was found for it: another plugin rejected it at
// Reserve, Permit or PreBind, or the API server refused its Binding. until is how long nothing starts of a gang that was released for it.
type lostPlace struct {
	pod   types.UID
	until time.Time
}

// Hold is what keeps a gang from something, and until when. The zero value is nothing.
type Hold struct {
	Until  time.Time
	Reason Reason
	// Why is the message for the members, "" for none.
	Why string
}

// Standing is how many of the other members of a gang have a place, and how many of them are bound.
type Standing struct{ Bound, Placed int }

// StartHold returns what keeps a member from being tried for now, if no verdict on the room does. Members that hold places, or are bound, need
// the others, so that not all of it applies.
func (g Gang) StartHold(now time.Time, others Standing) Hold {
	switch {
	case now.Before(g.failedUntil):
		return Hold{Until: g.failedUntil, Reason: MemberFailed}
	case others.Bound == 0 && g.backoffReason != "" && now.Before(g.lostPlace.until):
		return Hold{Until: g.lostPlace.until, Reason: PlaceLost, Why: g.backoffReason}
	case others.Placed == others.Bound && g.IsRejected(now):
		return Hold{Until: g.rejection.Until, Reason: FilterRejected, Why: g.rejection.why}
	}
	return Hold{}
}

// RecordFailure records that a member found no place at a time: none is tried for as long as the backoff. A failure during the backoff does not
// count, or a gang whose members are tried all the time would back off forever.
func (g *Gang) RecordFailure(now time.Time, backoff time.Duration) {
	if backoff > 0 && now.Before(g.failedUntil) {
		return
	}
	g.failedAt, g.failedUntil = now, now.Add(backoff)
}

// FailedAt returns when a member last found no place, the zero time for never.
func (g Gang) FailedAt() time.Time { return g.failedAt }

// IsBackingOff reports whether no member is tried, after one found no place.
func (g Gang) IsBackingOff(now time.Time) bool { return now.Before(g.failedUntil) }

// RecordSuccess clears the failures of a gang that has found its places. Its evictions may still have been in vain, and one that was partially bound
// is so still, until it is bound: the API server may refuse a Binding. But nothing lacks room meanwhile, however long the API server takes.
func (g *Gang) RecordSuccess() {
	if !g.partialRefused {
		g.EndPartial()
	}
	g.failedAt, g.failedUntil, g.verdict, g.rejection = time.Time{}, time.Time{}, Verdict{}, rejection{}
	g.protectionReason, g.writeBackoff = "", Backoff{}
}

// RecordVerdict stores the verdict that there is no room, for the other members.
func (g *Gang) RecordVerdict(v Verdict) { g.verdict = v }

// LastVerdict returns the last verdict that there is no room.
func (g Gang) LastVerdict() Verdict { return g.verdict }

// VerdictOn returns why there is no room on a basis, "" if that is not known.
func (g Gang) VerdictOn(on Basis) string {
	if g.verdict.On != on {
		return ""
	}
	return g.verdict.Reason
}

// RecordRejection records that another plugin rejected a member, and returns until when none is tried.
func (g *Gang) RecordRejection(why string, now time.Time) time.Time {
	g.rejection.GrowBackoff(FirstRejectionBackoff, BaseBackoff, now)
	g.rejection.since, g.rejection.why = now, why
	return g.rejection.Until
}

// IsRejected reports whether no member is tried, as another plugin rejected one a moment ago.
func (g Gang) IsRejected(now time.Time) bool { return now.Before(g.rejection.Until) }

// RejectionReason returns why no member is tried, "" if they may be.
func (g Gang) RejectionReason(now time.Time) string {
	if !g.IsRejected(now) {
		return ""
	}
	return g.rejection.why
}

// RetrySoon shortens the backoff of a rejected gang after a change of the cluster, and returns its end.
func (g *Gang) RetrySoon() time.Time {
	g.rejection.Until = earlierTime(g.rejection.Until, g.rejection.since.Add(MinRejectionBackoff))
	return g.rejection.Until
}

// ClearRejection ends the backoff of a rejected gang, because its PodGroup has changed.
func (g *Gang) ClearRejection() { g.rejection = rejection{} }

func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

package phase

import "time"

// Reason is why a gang is tried again at a certain time, without an event in the cluster.
type Reason int

// The reasons, of which reasons has the sentences. NoReason is that of no attempt.
const (
	NoReason Reason = iota
	MemberFailed
	FilterRejected
	PlaceLost
	BetterPlacement
	SearchTurn
	VictimsProtected
	NoticesWithdrawn
	WriteFailed
	BoundInPart
	MemberEnds
	GroupChanged
	reasonCount
)

// Audience is which waiting members an attempt activates.
type Audience int

const (
	// AllMembers activates every waiting member.
	AllMembers Audience = iota
	// OneMember activates any one of them.
	OneMember
	// Representative activates the member that is tried for its gang, or all where there is none.
	Representative
)

var reasons = [reasonCount]struct {
	text string
	who  Audience
}{
	NoReason:         {"–", AllMembers},
	MemberFailed:     {"the backoff after a member found no place ends", AllMembers},
	FilterRejected:   {"the backoff after another plugin rejected a member ends", OneMember},
	PlaceLost:        {"the backoff after a member lost its place ends", Representative},
	BetterPlacement:  {"it no longer waits for a placement in one domain", AllMembers},
	SearchTurn:       {"its turn to search for victims has come", Representative},
	VictimsProtected: {"protected victims may leave", Representative},
	NoticesWithdrawn: {"its notices were withdrawn, and it may choose other victims", Representative},
	WriteFailed:      {"the backoff after a failed write ends", AllMembers},
	BoundInPart:      {"members are bound without the others, and their time is over", AllMembers},
	MemberEnds:       {"a lost member's grace period is over", AllMembers},
	GroupChanged:     {"its PodGroup changed while its members were tried", AllMembers},
}

// String returns a sentence about a reason.
func (r Reason) String() string { return reasons[r].text }

// Audience returns which members an attempt for a reason activates.
func (r Reason) Audience() Audience { return reasons[r].who }

// NextAttempt is when a gang is tried next, and why. The zero value is no attempt: events alone wake the gang.
type NextAttempt struct {
	At     time.Time
	Reason Reason
}

// Agenda has the attempts that a gang waits for, one for each reason, of which the earliest comes next.
type Agenda struct {
	attempts [reasonCount]plannedAttempt
}

type plannedAttempt struct {
	at time.Time
	// isOver says that the time has come.
	isOver bool
}

// PlanAttempt sets when a gang is tried for a reason, in place of an earlier time for it, and reports whether that is news.
func (a *Agenda) PlanAttempt(reason Reason, at time.Time) bool {
	if a.attempts[reason].at.Equal(at) {
		return false
	}
	a.attempts[reason] = plannedAttempt{at: at}
	return true
}

// IsPlanned reports whether a gang waits for an attempt for a reason.
func (a Agenda) IsPlanned(reason Reason) bool {
	return !a.attempts[reason].at.IsZero() && !a.attempts[reason].isOver
}

// EarliestAttempt returns the attempt that comes next.
func (a Agenda) EarliestAttempt() (next NextAttempt) {
	for reason := range reasonCount {
		if at := a.attempts[reason].at; a.IsPlanned(reason) && (next.Reason == NoReason || at.Before(next.At)) {
			next = NextAttempt{At: at, Reason: reason}
		}
	}
	return next
}

// TakeDue removes the attempts whose time has come, and returns their reasons.
func (a *Agenda) TakeDue(now time.Time) (due []Reason) {
	for reason := range reasonCount {
		if a.IsPlanned(reason) && !a.attempts[reason].at.After(now) {
			a.attempts[reason].isOver = true
			due = append(due, reason)
		}
	}
	return due
}

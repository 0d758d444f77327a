// Package phase is the state of one gang in the scheduler, as a value: how many of its members have places, what it waits for, when it is tried
// next and why. It has no clock and no lock: each method takes the time, and the caller acts on the result.
package phase

import "time"

// Phase is where a gang stands. It is stored nowhere: it follows from the state of the gang, by [Gang.PhaseAt].
type Phase int

const (
	// Pending is the phase of a gang that is tried whenever there may be room for it.
	Pending Phase = iota
	// Assembling is the phase of a gang whose members are still being created.
	Assembling
	// BackingOff is the phase of a gang that is not tried before its next attempt.
	BackingOff
	// Preempting is the phase of a gang for which pods leave.
	Preempting
	// Starting is the phase of a gang of which some members hold places and wait for the others.
	Starting
	// Binding is the phase of a gang of which enough members have places, and are being bound.
	Binding
	// Running is the phase of a gang that was whole and has bound members ever since.
	Running
	// PartiallyBound is the phase of a gang of which some members are bound, and the others have no place.
	PartiallyBound
)

// row is what the table says of a phase.
type row struct {
	name string
	// waitsFor is what a gang in this phase waits for, and wokenBy what ends the wait.
	waitsFor, wokenBy string
	// next are the phases that may follow.
	next []Phase
}

// table has all phases. docs/architecture.md shows it, and the tests of plugins/coscheduling hold each change of phase against it.
var table = [...]row{
	Pending: {"Pending", "room for all members, or its position in the queue", "a node or a pod that changes",
		[]Phase{Assembling, BackingOff, Preempting, Starting, Binding, Running, PartiallyBound}},
	Assembling: {"Assembling", "the rest of its members", "the last member, or 3 seconds without a new one",
		[]Phase{Pending, BackingOff, Starting, Binding, Running, PartiallyBound}},
	BackingOff: {"BackingOff", "its next attempt", "the timer of the gang",
		[]Phase{Pending, Assembling, Preempting, Starting, Binding, Running, PartiallyBound}},
	Preempting: {"Preempting", "its victims to leave", "a victim that is gone",
		[]Phase{Pending, BackingOff, Starting, Binding, Running, PartiallyBound}},
	Starting: {"Starting", "places for the other members", "each member that gets a place; all places are given up when one gets none, or after the timeout",
		[]Phase{Pending, BackingOff, Preempting, Binding, Running, PartiallyBound}},
	Binding: {"Binding", "the API server", "the last binding",
		[]Phase{Pending, BackingOff, Preempting, Starting, Running, PartiallyBound}},
	Running: {"Running", "nothing; a member that restarts is placed alone", "–",
		[]Phase{Pending, BackingOff, Starting, Binding, PartiallyBound}},
	PartiallyBound: {"PartiallyBound", "places for the other members, for 5 seconds; then its members are evicted", "the timer of the gang",
		[]Phase{Pending, Assembling, BackingOff, Preempting, Starting, Binding, Running}},
}

// String returns the name of a phase.
func (p Phase) String() string { return table[p].name }

// WaitsFor returns what a gang in a phase waits for.
func (p Phase) WaitsFor() string { return table[p].waitsFor }

// MayPrecede reports whether a phase may be followed by another one.
func (p Phase) MayPrecede(next Phase) bool {
	for _, one := range table[p].next {
		if one == next {
			return true
		}
	}
	return false
}

// PhaseAt returns the phase of a gang at a time.
func (g Gang) PhaseAt(now time.Time) Phase {
	switch {
	case g.whole && g.Bound > 0:
		return Running
	case g.Waiting > 0:
		return Starting
	case g.Passed > 0:
		return Binding
	case g.Bound > 0:
		return PartiallyBound
	case g.AwaitsDepartures(now):
		return Preempting
	case g.isAssembling:
		return Assembling
	case g.StartHold(now, Standing{}).Reason != NoReason:
		return BackingOff
	}
	return Pending
}

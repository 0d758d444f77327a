package queue

import (
	"cmp"
	"slices"
	"strings"
)

// aside are entries that a quota keeps waiting. Those that ask the same of it stand in one lane, where all are refused if the first is: so of
// the thousands that a namespace may have waiting one is tried when somebody leaves some of its quota, and not each.
type aside struct{ lanes []*lane }

// lane are entries that ask the same, by their places in the line, the first first.
type lane struct {
	asked   asked
	entries []int
	// keeper is the quota without more of which none of them starts, "" where that is not known.
	keeper string
	// closed says that the first was refused in this pass, in which nobody leaves anything.
	closed bool
}

// asked is all that quotas decide by, and whether they kept the entry waiting when the play began.
type asked struct {
	namespace, types string
	gpus             int64
	overQuota        bool
}

func askedBy(entry *Entry) asked {
	ask, accepted := entry.ask()
	return asked{namespace: ask.Namespace, types: strings.Join(accepted, ","), gpus: ask.GPUs, overQuota: entry.wish.overQuota}
}

// add puts an entry, which was just refused, into its lane.
func (a *aside) add(place int, entry *Entry) {
	by := askedBy(entry)
	at := slices.IndexFunc(a.lanes, func(l *lane) bool { return l.asked == by })
	if at < 0 {
		at = len(a.lanes)
		a.lanes = append(a.lanes, &lane{asked: by})
	}
	into := a.lanes[at]
	behind, _ := slices.BinarySearch(into.entries, place)
	into.entries, into.keeper, into.closed = slices.Insert(into.entries, behind, place), entry.wish.keeper, true
}

// leave takes the first entry out of a lane.
func (a *aside) leave(from *lane) {
	if from.entries = from.entries[1:]; len(from.entries) == 0 {
		a.lanes = slices.DeleteFunc(a.lanes, func(l *lane) bool { return l == from })
	}
}

// open has all lanes tried again.
func (a *aside) open() {
	for _, each := range a.lanes {
		each.closed = false
	}
}

// next is the lane of the first entry that may start now, nil for none.
func (a *aside) next(hasLeft func(quota string) bool) *lane {
	return a.first(func(l *lane) bool { return !l.closed && hasLeft(l.keeper) })
}

// first is the lane of the first entry, of some lanes, nil for none.
func (a *aside) first(of func(*lane) bool) (first *lane) {
	for _, each := range a.lanes {
		if of(each) && (first == nil || cmp.Less(each.entries[0], first.entries[0])) {
			first = each
		}
	}
	return first
}

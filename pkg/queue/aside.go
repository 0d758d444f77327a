package queue

import (
	"cmp"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/gpuquota"
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

// asked is what quotas see of an entry. Who accepts a type that none of them counts alone is in no other place than who accepts all: users
// write what types they like, and would have a lane for each job.
func (s *shares) asked(entry *Entry) asked {
	ask, accepted := entry.ask()
	by := asked{namespace: ask.Namespace, gpus: ask.GPUs, overQuota: entry.wish.overQuota}
	for _, name := range accepted {
		if s == nil || !slices.ContainsFunc(s.quotas, func(q gpuquota.Quota) bool { return q.Type == name && slices.Contains(q.Namespaces, ask.Namespace) }) {
			return by
		}
	}
	by.types = strings.Join(slices.Compact(slices.Sorted(slices.Values(accepted))), ",")
	return by
}

// add puts an entry, which was just refused what it asked, into its lane.
func (a *aside) add(place int, entry *Entry, by asked) {
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

package queue

import (
	"cmp"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// aside holds entries that are blocked by a quota. Entries with the same demand on quotas share a subqueue, in which all are refused if the first is.
// So of the thousands of entries that a namespace may have waiting, one is tried when quota is released, and not each.
type aside struct{ lanes []*lane }

// lane holds entries with the same demand, by their positions in the queue, in order.
type lane struct {
	asked   asked
	entries []int
	// keeper is the quota that blocks all of them, "" if unknown.
	keeper string
	// closed is true if the first entry was refused in this pass, in which no quota is released.
	closed bool
}

// asked is everything that quotas decide by, and whether they blocked the entry when the simulation began.
type asked struct {
	namespace, types string
	gpus             int64
	overQuota        bool
}

// asked is an entry's demand as quotas see it. If no quota counts an accepted type separately, the entry is treated like one that accepts all types.
// Otherwise users, who may write any types, would get a subqueue for each job.
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

// add puts an entry whose demand was just refused into its subqueue.
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

// leave removes the first entry from a subqueue.
func (a *aside) leave(from *lane) {
	if from.entries = from.entries[1:]; len(from.entries) == 0 {
		a.lanes = slices.DeleteFunc(a.lanes, func(l *lane) bool { return l == from })
	}
}

// open makes all subqueues eligible again.
func (a *aside) open() {
	for _, each := range a.lanes {
		each.closed = false
	}
}

// next is the subqueue of the first entry that may start now, nil for none.
func (a *aside) next(hasLeft func(quota string) bool) *lane {
	return a.first(func(l *lane) bool { return !l.closed && hasLeft(l.keeper) })
}

// first is the subqueue of the first entry, among some subqueues, nil for none.
func (a *aside) first(of func(*lane) bool) (first *lane) {
	for _, each := range a.lanes {
		if of(each) && (first == nil || cmp.Less(each.entries[0], first.entries[0])) {
			first = each
		}
	}
	return first
}

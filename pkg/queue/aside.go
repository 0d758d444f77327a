package queue

import (
	"cmp"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// quotaBacklog holds entries that are blocked by a quota. Entries with the same demand on quotas share a subqueue, in which all are refused if the first is.
// So of the thousands of entries that a namespace may have waiting, one is tried when quota is released, and not each.
type quotaBacklog struct{ subqueues []*subqueue }

// subqueue holds entries with the same demand, by their positions in the queue, in order.
type subqueue struct {
	demand  quotaDemand
	entries []int
	// limitingQuota is the quota that blocks all of them, "" if unknown.
	limitingQuota string
	// closed is true if the first entry was refused in this pass, in which no quota is released.
	closed bool
}

// quotaDemand is everything that quotas decide by, and whether they blocked the entry when the simulation began.
type quotaDemand struct {
	namespace, types string
	gpus             int64
	overQuota        bool
}

// demandOf is an entry's demand as quotas see it. If no quota counts an accepted type separately, the entry is treated like one that accepts all types.
// Otherwise users, who may write any types, would get a subqueue for each job.
func (s *quotaShares) demandOf(entry *Entry) quotaDemand {
	ask, accepted := entry.quotaAsk()
	by := quotaDemand{namespace: ask.Namespace, gpus: ask.GPUs, overQuota: entry.demand.overQuota}
	for _, name := range accepted {
		if s == nil || !slices.ContainsFunc(s.quotas, func(q gpuquota.Quota) bool { return q.Type == name && slices.Contains(q.Namespaces, ask.Namespace) }) {
			return by
		}
	}
	by.types = strings.Join(slices.Compact(slices.Sorted(slices.Values(accepted))), ",")
	return by
}

// addEntry puts an entry whose demand was just refused into its subqueue.
func (a *quotaBacklog) addEntry(place int, entry *Entry, by quotaDemand) {
	at := slices.IndexFunc(a.subqueues, func(l *subqueue) bool { return l.demand == by })
	if at < 0 {
		at = len(a.subqueues)
		a.subqueues = append(a.subqueues, &subqueue{demand: by})
	}
	into := a.subqueues[at]
	behind, _ := slices.BinarySearch(into.entries, place)
	into.entries, into.limitingQuota, into.closed = slices.Insert(into.entries, behind, place), entry.demand.limitingQuota, true
}

// removeFirst removes the first entry from a subqueue.
func (a *quotaBacklog) removeFirst(from *subqueue) {
	if from.entries = from.entries[1:]; len(from.entries) == 0 {
		a.subqueues = slices.DeleteFunc(a.subqueues, func(l *subqueue) bool { return l == from })
	}
}

// reopenAll makes all subqueues eligible again.
func (a *quotaBacklog) reopenAll() {
	for _, each := range a.subqueues {
		each.closed = false
	}
}

// nextOpen is the subqueue of the first entry that may start now, nil for none.
func (a *quotaBacklog) nextOpen(hasLeft func(quota string) bool) *subqueue {
	return a.firstWhere(func(l *subqueue) bool { return !l.closed && hasLeft(l.limitingQuota) })
}

// firstWhere is the subqueue of the first entry, among some subqueues, nil for none.
func (a *quotaBacklog) firstWhere(of func(*subqueue) bool) (first *subqueue) {
	for _, each := range a.subqueues {
		if of(each) && (first == nil || cmp.Less(each.entries[0], first.entries[0])) {
			first = each
		}
	}
	return first
}

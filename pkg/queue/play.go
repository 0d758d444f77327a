package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/fit"
)

// play tries the entries in order whenever GPUs are released or a reservation ends. No entry passes one that does not fit: whether that happens is
// unknown, and it would only delay others. An entry that a quota blocks does not block others.
func (l *line) play(limits map[types.UID]time.Time) {
	for !l.pass(limits) {
		if ends := l.reservations.NextEnd(l.now); !ends.IsZero() && (len(l.releases) == 0 || ends.Before(l.releases[0].at)) {
			l.now = ends
			continue
		}
		if len(l.releases) == 0 {
			return
		}
		first := l.releases[0]
		l.releases = l.releases[1:]
		if first.replaced && schedulinghelper.PodPriority(first.pod) > l.first().Priority {
			continue // what comes after it is before all that wait
		}
		l.machines[first.node].remove(first.pod)
		l.shares.free(first)
		if first.at.After(l.now) {
			l.now = first.at
		}
	}
}

// first is the first entry that waits.
func (l *line) first() *Entry {
	if lane := l.aside.first(func(*lane) bool { return true }); lane != nil {
		return &l.entries[lane.entries[0]]
	}
	return &l.entries[l.next]
}

// pass tries the waiting entries, and reports whether none is left.
func (l *line) pass(limits map[types.UID]time.Time) bool {
	if !l.passAside(limits) {
		return false
	}
	l.shares.forget()
	for ; l.next < len(l.entries); l.next++ {
		switch l.place(&l.entries[l.next], limits) {
		case overQuota:
			l.aside.add(l.next, &l.entries[l.next], l.shares.asked(&l.entries[l.next]))
		case noRoom:
			return false
		}
	}
	return len(l.aside.lanes) == 0
}

// passAside tries the entries whose blocking quota was released, and reports whether there was room for them.
func (l *line) passAside(limits map[types.UID]time.Time) bool {
	l.aside.open()
	for lane := l.aside.next(l.shares.hasLeft); lane != nil; lane = l.aside.next(l.shares.hasLeft) {
		place := lane.entries[0]
		switch l.place(&l.entries[place], limits) {
		case done:
			l.aside.leave(lane)
		case overQuota: // of pods that start one by one the next may ask something else
			l.aside.leave(lane)
			l.aside.add(place, &l.entries[place], l.shares.asked(&l.entries[place]))
		case noRoom:
			return false
		}
	}
	return true
}

// fate is the result of trying an entry.
type fate int

const (
	done fate = iota
	noRoom
	overQuota
)

// place puts pods of an entry on nodes, of a gang all or none, and records when the first starts. An entry is done when no pod is left, or when it
// currently cannot start: no node could hold it, something other than room blocks it, or its own limit has ended by then.
func (l *line) place(entry *Entry, limits map[types.UID]time.Time) fate {
	end, limited := limits[entry.wish.owner]
	if entry.Never || entry.Cause != "" && !entry.wish.overQuota || limited && !end.After(l.now) {
		return done
	}
	left := entry.wish.requests[entry.wish.placed:]
	switch allowed := l.allowed(entry, left); {
	case entry.Never:
		return done
	case allowed == 0:
		return overQuota
	case entry.wish.confined:
		return noRoom
	default:
		return l.seat(entry, left, allowed, limits)
	}
}

// allowed is how many of the waiting pods of an entry may start by the quotas. It records which quota blocks all.
func (l *line) allowed(entry *Entry, left []*fit.Request) int {
	allowed, excess := l.shares.allow(entry, left)
	if excess != nil && (l.now.Equal(l.start) || excess.Asked > excess.Max) && entry.wish.placed+allowed == 0 {
		entry.over(excess.Quota, excess.Used, excess.Max, excess.Asked)
	}
	if entry.wish.overQuota && l.now.Equal(l.start) { // guarantees for others count, too
		return 0
	}
	return allowed
}

// seat puts that many of the waiting pods of an entry on nodes.
func (l *line) seat(entry *Entry, left []*fit.Request, allowed int, limits map[types.UID]time.Time) fate {
	placed := l.placeSome(left[:allowed])
	whole := len(placed) == len(left)
	if len(placed) == 0 || !whole && entry.wish.together() {
		l.undo(placed)
		return noRoom
	}
	if beyond := entry.wish.beyond; beyond != nil && l.now.Equal(l.start) { // the scheduler has tried, and refused
		l.undo(placed)
		entry.block(*beyond)
		return done
	}
	l.begin(entry, placed, limits)
	switch {
	case whole:
		return done
	case len(placed) == allowed:
		return overQuota
	}
	return noRoom
}

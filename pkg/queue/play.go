package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/fit"
)

// playForward tries the entries in order whenever GPUs are released or a reservation ends. No entry passes one that does not fit: whether that happens is
// unknown, and it would only delay others. An entry that a quota blocks does not block others.
func (l *poolQueue) playForward(limits map[types.UID]time.Time) {
	for !l.tryEntries(limits) {
		if ends := l.reservations.NextEnd(l.now); !ends.IsZero() && (len(l.releases) == 0 || ends.Before(l.releases[0].at)) {
			l.now = ends
			continue
		}
		if len(l.releases) == 0 {
			return
		}
		first := l.releases[0]
		l.releases = l.releases[1:]
		if first.replaced && schedulinghelper.PodPriority(first.pod) > l.firstWaiting().Priority {
			continue // what comes after it is before all that wait
		}
		l.machines[first.node].removePod(first.pod)
		l.shares.removeEnded(first)
		if first.at.After(l.now) {
			l.now = first.at
		}
	}
}

// firstWaiting is the first entry that waits.
func (l *poolQueue) firstWaiting() *Entry {
	if lane := l.backlog.firstWhere(func(*subqueue) bool { return true }); lane != nil {
		return &l.entries[lane.entries[0]]
	}
	return &l.entries[l.next]
}

// tryEntries tries the waiting entries, and reports whether none is left.
func (l *poolQueue) tryEntries(limits map[types.UID]time.Time) bool {
	if !l.tryBacklog(limits) {
		return false
	}
	l.shares.clearFreed()
	for ; l.next < len(l.entries); l.next++ {
		switch l.placeEntry(&l.entries[l.next], limits) {
		case overQuota:
			l.backlog.addEntry(l.next, &l.entries[l.next], l.shares.demandOf(&l.entries[l.next]))
		case noRoom:
			return false
		}
	}
	return len(l.backlog.subqueues) == 0
}

// tryBacklog tries the entries whose blocking quota was released, and reports whether there was room for them.
func (l *poolQueue) tryBacklog(limits map[types.UID]time.Time) bool {
	l.backlog.reopenAll()
	for lane := l.backlog.nextOpen(l.shares.hasLeft); lane != nil; lane = l.backlog.nextOpen(l.shares.hasLeft) {
		place := lane.entries[0]
		switch l.placeEntry(&l.entries[place], limits) {
		case done:
			l.backlog.removeFirst(lane)
		case overQuota: // of pods that start one by one the next may ask something else
			l.backlog.removeFirst(lane)
			l.backlog.addEntry(place, &l.entries[place], l.shares.demandOf(&l.entries[place]))
		case noRoom:
			return false
		}
	}
	return true
}

// placeResult is the result of trying an entry.
type placeResult int

const (
	done placeResult = iota
	noRoom
	overQuota
)

// placeEntry puts pods of an entry on nodes, of a gang all or none, and records when the first starts. An entry is done when no pod is left, or when it
// currently cannot start: no node could hold it, something other than room blocks it, or its own limit has ended by then.
func (l *poolQueue) placeEntry(entry *Entry, limits map[types.UID]time.Time) placeResult {
	end, limited := limits[entry.demand.owner]
	if entry.Never || entry.Cause != "" && !entry.demand.overQuota || limited && !end.After(l.now) {
		return done
	}
	left := entry.demand.requests[entry.demand.placed:]
	switch allowed := l.countAllowed(entry, left); {
	case entry.Never:
		return done
	case allowed == 0:
		return overQuota
	case entry.demand.confined:
		return noRoom
	default:
		return l.placePods(entry, left, allowed, limits)
	}
}

// countAllowed is how many of the waiting pods of an entry may start by the quotas. It records which quota blocks all.
func (l *poolQueue) countAllowed(entry *Entry, left []*fit.Request) int {
	allowed, excess := l.shares.countAllowed(entry, left)
	if excess != nil && (l.now.Equal(l.start) || excess.Asked > excess.Max) && entry.demand.placed+allowed == 0 {
		entry.blockByQuota(excess.Quota, excess.Used, excess.Max, excess.Asked)
	}
	if entry.demand.overQuota && l.now.Equal(l.start) { // guarantees for others count, too
		return 0
	}
	return allowed
}

// placePods puts that many of the waiting pods of an entry on nodes.
func (l *poolQueue) placePods(entry *Entry, left []*fit.Request, allowed int, limits map[types.UID]time.Time) placeResult {
	placed := l.placeUntilFull(left[:allowed])
	whole := len(placed) == len(left)
	if len(placed) == 0 || !whole && entry.demand.startsTogether() {
		l.undoPlacement(placed)
		return noRoom
	}
	if beyond := entry.demand.beyondNodes; beyond != nil && l.now.Equal(l.start) { // the scheduler has tried, and refused
		l.undoPlacement(placed)
		entry.setBlocked(*beyond)
		return done
	}
	l.startPods(entry, placed, limits)
	switch {
	case whole:
		return done
	case len(placed) == allowed:
		return overQuota
	}
	return noRoom
}

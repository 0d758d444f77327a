package backfill

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// StartReservations are the start reservations that the plugins of a scheduler share. Lookups never block. nil has none.
type StartReservations struct {
	now func() time.Time
	// position returns the queue position of a pod.
	position atomic.Pointer[func(*corev1.Pod) QueuePosition]
	// horizon is how far ahead a start may lie, in nanoseconds.
	horizon atomic.Int64
	current atomic.Pointer[ReservationSet]
	// expected is the expected ends of pods without a deadline.
	expected expectations

	mu        sync.Mutex
	released  func(Release)
	betsByJob map[string]*bets
}

// NewStartReservations returns reservations with a clock, time.Now if it is nil. None is made before a plugin applies them.
func NewStartReservations(now func() time.Time) *StartReservations {
	if now == nil {
		now = time.Now
	}
	return &StartReservations{now: now}
}

// ExtendHorizon enables reservations for starts up to so far ahead. Among several profiles the longest horizon counts.
func (p *StartReservations) ExtendHorizon(horizon time.Duration) {
	if p == nil {
		return
	}
	for {
		before := p.horizon.Load()
		if before >= int64(horizon) || p.horizon.CompareAndSwap(before, int64(horizon)) {
			return
		}
	}
}

// Horizon is how far ahead a start may lie, 0 if reservations are disabled.
func (p *StartReservations) Horizon() time.Duration {
	if p == nil {
		return 0
	}
	return time.Duration(p.horizon.Load())
}

// SetPositionFunc sets the function for queue positions.
func (p *StartReservations) SetPositionFunc(line func(*corev1.Pod) QueuePosition) {
	if p != nil {
		p.position.Store(&line)
	}
}

// OnRelease sets the function that is called when nodes are reserved from fewer pods than before. There is one such function.
func (p *StartReservations) OnRelease(released func(Release)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = released
}

// CurrentSet returns all reservations, nil for none.
func (p *StartReservations) CurrentSet() *ReservationSet {
	if p == nil {
		return nil
	}
	return p.current.Load()
}

// ReservesNode reports whether something of a node is reserved.
func (p *StartReservations) ReservesNode(node string) bool {
	book := p.CurrentSet()
	return book != nil && slices.ContainsFunc(book.reservations, func(promise *StartReservation) bool { return promise.hasNode(node) })
}

// HasAny reports whether anything is reserved.
func (p *StartReservations) HasAny() bool {
	book := p.CurrentSet()
	return book != nil && len(book.reservations) > 0
}

// Version changes with the reservations. It is 0 if there are none.
func (p *StartReservations) Version() uint64 {
	if book := p.CurrentSet(); book != nil {
		return book.version
	}
	return 0
}

// ReservedFrom returns what other jobs have reserved of the places that a pod could take now, nil for nothing.
func (p *StartReservations) ReservedFrom(pod *corev1.Pod) *ReservedRoom {
	book := p.CurrentSet()
	if book == nil {
		return nil
	}
	return book.ReservedFrom(pod, p.positionOf(pod), p.now())
}

// ReservedBehind returns what jobs behind a pod in the queue have reserved, nil for nothing.
func (p *StartReservations) ReservedBehind(pod *corev1.Pod) *ReservedRoom {
	book := p.CurrentSet()
	if book == nil {
		return nil
	}
	return book.ReservedBehind(pod, p.positionOf(pod), p.now())
}

func (p *StartReservations) positionOf(pod *corev1.Pod) QueuePosition {
	return (*p.position.Load())(pod)
}

// ReserveStart reserves a start for a job, and replaces its earlier reservation, and the one of another job in the queue of its pool.
func (p *StartReservations) ReserveStart(promise *StartReservation) {
	p.updateSet(func(before []*StartReservation) []*StartReservation {
		if of := p.betsByJob[promise.Job]; of != nil {
			promise.barredNamespaces = of.barredNamespaces()
		}
		promise.notifiedStart = promise.At
		if old := (&ReservationSet{reservations: before}).ForJob(promise.Job); old != nil && promise.At.Sub(old.notifiedStart) <= maxSilentDelay && old.notifiedStart.Before(promise.At) {
			promise.notifiedStart = old.notifiedStart
		}
		after := slices.DeleteFunc(slices.Clone(before), func(other *StartReservation) bool {
			return other.Job == promise.Job || other.Pool == promise.Pool
		})
		return append(after, promise)
	})
}

// EndReservation removes the reservation of a job, which has taken some of the nodes. These are not reported as released.
func (p *StartReservations) EndReservation(job string, taken ...string) {
	if p.CurrentSet().ForJob(job) == nil {
		return
	}
	p.updateSet(func(before []*StartReservation) []*StartReservation {
		return slices.DeleteFunc(slices.Clone(before), func(other *StartReservation) bool { return other.Job == job })
	}, taken...)
}

// updateSet replaces the reservations, and reports the nodes that are reserved from fewer pods, except the taken ones.
func (p *StartReservations) updateSet(how func([]*StartReservation) []*StartReservation, taken ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var before []*StartReservation
	book := p.current.Load()
	version := uint64(1)
	if book != nil {
		before, version = book.reservations, book.version
	}
	after := how(before)
	open := freedNodes(before, after)
	if len(open) > 0 || len(before) != len(after) || isTightened(before, after) {
		version++
	}
	now := &ReservationSet{reservations: after, version: version, owner: p}
	p.current.Store(now)
	open = slices.DeleteFunc(open, func(node string) bool { return slices.Contains(taken, node) })
	if len(open) > 0 && p.released != nil {
		// The caller may hold locks that the callback needs.
		go p.released(Release{Nodes: open, before: book, after: now, owner: p, now: p.now()})
	}
}

package backfill

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Promises are the start reservations that the plugins of a scheduler share. Lookups never block. nil has none.
type Promises struct {
	now func() time.Time
	// line returns the queue position of a pod.
	line atomic.Pointer[func(*corev1.Pod) Turn]
	// horizon is how far ahead a start may lie, in nanoseconds.
	horizon atomic.Int64
	book    atomic.Pointer[Book]
	// expected is the expected ends of pods without a deadline.
	expected expectations

	mu       sync.Mutex
	released func(Release)
	betting  map[string]*bets
}

// NewPromises returns reservations with a clock, time.Now if it is nil. None is made before a plugin applies them.
func NewPromises(now func() time.Time) *Promises {
	if now == nil {
		now = time.Now
	}
	return &Promises{now: now}
}

// Keep enables reservations for starts up to so far ahead. Among several profiles the longest horizon counts.
func (p *Promises) Keep(horizon time.Duration) {
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
func (p *Promises) Horizon() time.Duration {
	if p == nil {
		return 0
	}
	return time.Duration(p.horizon.Load())
}

// LineUp sets the function for queue positions.
func (p *Promises) LineUp(line func(*corev1.Pod) Turn) {
	if p != nil {
		p.line.Store(&line)
	}
}

// OnRelease sets the function that is called when nodes are reserved from fewer pods than before. There is one such function.
func (p *Promises) OnRelease(released func(Release)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = released
}

// Book returns all reservations, nil for none.
func (p *Promises) Book() *Book {
	if p == nil {
		return nil
	}
	return p.book.Load()
}

// Keeps reports whether something of a node is reserved.
func (p *Promises) Keeps(node string) bool {
	book := p.Book()
	return book != nil && slices.ContainsFunc(book.promises, func(promise *Promise) bool { return promise.has(node) })
}

// Any reports whether anything is reserved.
func (p *Promises) Any() bool {
	book := p.Book()
	return book != nil && len(book.promises) > 0
}

// Version changes with the reservations. It is 0 if there are none.
func (p *Promises) Version() uint64 {
	if book := p.Book(); book != nil {
		return book.version
	}
	return 0
}

// Against returns what other jobs have reserved of the places that a pod could take now, nil for nothing.
func (p *Promises) Against(pod *corev1.Pod) *Closed {
	book := p.Book()
	if book == nil {
		return nil
	}
	return book.Against(pod, p.turnOf(pod), p.now())
}

// Behind returns what jobs behind a pod in the queue have reserved, nil for nothing.
func (p *Promises) Behind(pod *corev1.Pod) *Closed {
	book := p.Book()
	if book == nil {
		return nil
	}
	return book.Behind(pod, p.turnOf(pod), p.now())
}

func (p *Promises) turnOf(pod *corev1.Pod) Turn { return (*p.line.Load())(pod) }

// Give reserves a start for a job, and replaces its earlier reservation, and the one of another job in the queue of its pool.
func (p *Promises) Give(promise *Promise) {
	p.change(func(before []*Promise) []*Promise {
		if of := p.betting[promise.Job]; of != nil {
			promise.barred = of.barred()
		}
		promise.told = promise.At
		if old := (&Book{promises: before}).Of(promise.Job); old != nil && promise.At.Sub(old.told) <= slip && old.told.Before(promise.At) {
			promise.told = old.told
		}
		after := slices.DeleteFunc(slices.Clone(before), func(other *Promise) bool {
			return other.Job == promise.Job || other.Pool == promise.Pool
		})
		return append(after, promise)
	})
}

// End removes the reservation of a job, which has taken some of the nodes. These are not reported as released.
func (p *Promises) End(job string, taken ...string) {
	if p.Book().Of(job) == nil {
		return
	}
	p.change(func(before []*Promise) []*Promise {
		return slices.DeleteFunc(slices.Clone(before), func(other *Promise) bool { return other.Job == job })
	}, taken...)
}

// change replaces the reservations, and reports the nodes that are reserved from fewer pods, except the taken ones.
func (p *Promises) change(how func([]*Promise) []*Promise, taken ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var before []*Promise
	book := p.book.Load()
	version := uint64(1)
	if book != nil {
		before, version = book.promises, book.version
	}
	after := how(before)
	open := loosened(before, after)
	if len(open) > 0 || len(before) != len(after) || tightened(before, after) {
		version++
	}
	now := &Book{promises: after, version: version, of: p}
	p.book.Store(now)
	open = slices.DeleteFunc(open, func(node string) bool { return slices.Contains(taken, node) })
	if len(open) > 0 && p.released != nil {
		// The caller may hold locks that the callback needs.
		go p.released(Release{Nodes: open, before: book, after: now, of: p, now: p.now()})
	}
}

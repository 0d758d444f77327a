package backfill

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// Promise is what a job was promised.
type Promise struct {
	// Turn is whose it is.
	Turn
	// Pool is that in whose line the job is the first, "" for those who name none. There is one promise in each.
	Pool string
	// At is when all of the job fits, at the latest.
	At time.Time
	// Expected says that it rests on when some are expected to be gone that have no deadline, and not on deadlines alone.
	Expected bool
	// Domain is the innermost of the topology that all of the job will lie in, such as "rack r1"; "" where it asked for no level, or will lie in none.
	Domain string
	// Places are what it needs, by node.
	Places map[string]Place
	// barred are the namespaces whose pods have stayed too often when they were expected to be gone.
	barred sets.Set[string]
	// told is the earliest time of it since the others were told that it is later.
	told time.Time
}

// Place is what a job is to have of a node.
type Place struct {
	Needs []cycle.Ask
	// Leaving are the pods that are gone by then.
	Leaving sets.Set[types.UID]
}

// Turn is where a job stands in line: first by its priority, then by when it was made.
type Turn struct {
	// Job names it.
	Job      string
	Priority int32
	Since    time.Time
	// Members is how many pods it has that start together, 0 for one.
	Members int
}

// Before reports whether a job stands before another one. Of those that were made in the same second, the time that Kubernetes
// notes, none does, so that what was promised to one binds the others.
func (t Turn) Before(other Turn) bool {
	return cmp.Or(cmp.Compare(other.Priority, t.Priority), t.Since.Compare(other.Since)) < 0
}

// lapse is how long after its time a promise counts that nobody has renewed: as long as the queue of a busy scheduler keeps a
// job waiting that would.
const lapse = 10 * time.Minute

// Counts reports whether a promise keeps anybody out at a time.
func (p *Promise) Counts(now time.Time) bool { return now.Before(p.At.Add(lapse)) }

// Book is all promises. It is never changed; nil has none.
type Book struct {
	promises []*Promise
	// version differs from that of all other books.
	version uint64
	// of are the promises that it is a state of. nil expects nobody to leave who has no deadline.
	of *Promises
}

// Of returns the promise of a job, nil for none.
func (b *Book) Of(job string) *Promise {
	if b == nil {
		return nil
	}
	for _, promise := range b.promises {
		if promise.Job == job {
			return promise
		}
	}
	return nil
}

// First returns the promise that counts in the line of a pool, nil for none.
func (b *Book) First(pool string, now time.Time) *Promise {
	if b == nil {
		return nil
	}
	for _, promise := range b.promises {
		if promise.Pool == pool && promise.Counts(now) {
			return promise
		}
	}
	return nil
}

// Against returns what was promised to others of the places that a pod could take, nil for nothing. It costs a look at each promise.
func (b *Book) Against(pod *corev1.Pod, turn Turn, now time.Time) *Closed {
	return b.closed(counting(b.binding(pod, turn, now), now), pod, now)
}

// Behind returns what was promised to those who stand behind a pod in line, which would be on the nodes for longer, nil for nothing: it may
// take that all the same.
func (b *Book) Behind(pod *corev1.Pod, turn Turn, now time.Time) *Closed {
	return b.closed(counting(b.touched(pod, turn, now, turn.Before), now), pod, now)
}

func (b *Book) closed(promises []*Promise, pod *corev1.Pod, now time.Time) *Closed {
	if len(promises) == 0 {
		return nil
	}
	return &Closed{promises: promises, asks: cycle.AsksOf(pod), now: now, of: b.of}
}

// counting are the promises that count at a time.
func counting(promises []*Promise, now time.Time) []*Promise {
	return slices.DeleteFunc(promises, func(promise *Promise) bool { return !promise.Counts(now) })
}

// binding are the promises to others that a pod must leave room for while they count: those to who comes before it, unless it is gone by then.
func (b *Book) binding(pod *corev1.Pod, turn Turn, now time.Time) []*Promise {
	return b.touched(pod, turn, now, func(other Turn) bool { return !turn.Before(other) })
}

// touched are the promises to others, of those that are meant, that a pod would be on the nodes of when their time comes.
func (b *Book) touched(pod *corev1.Pod, turn Turn, now time.Time, meant func(Turn) bool) (promises []*Promise) {
	if b == nil {
		return nil
	}
	stay, limited := reservation.Stay(pod)
	expected, known := time.Duration(0), false
	if b.of != nil && !limited {
		expected, known = b.of.expected.stay(pod, turn.Members)
	}
	for _, promise := range b.promises {
		switch {
		case promise.Job == turn.Job, !meant(promise.Turn):
		case limited && !now.Add(stay).After(promise.At):
		case known && promise.trusts(pod.Namespace, now) && !now.Add(expected).After(promise.At):
		default:
			promises = append(promises, promise)
		}
	}
	return promises
}

// trusts reports whether it is enough that a pod of a namespace is expected to be gone by then. What rests on deadlines is kept by deadlines: whoever
// lasts longer than those before them must not put off a start that nobody could else.
func (p *Promise) trusts(namespace string, now time.Time) bool {
	return p.Expected && now.Sub(p.Since) < trust && !p.barred.Has(namespace)
}

// Closed is what of nodes was promised to others than a pod. nil is nothing.
type Closed struct {
	promises []*Promise
	asks     []cycle.Ask
	now      time.Time
	of       *Promises
}

// Room is for how many such pods a node has room beside what was promised of it and others that come there with them, math.MaxInt if
// nothing was promised.
func (c *Closed) Room(info fwk.NodeInfo, come ...cycle.Ask) int {
	room := math.MaxInt
	if c == nil || info.Node() == nil {
		return room
	}
	for _, promise := range c.promises {
		if place, ok := promise.Places[info.Node().Name]; ok && room > 0 {
			room = min(room, c.beside(promise, &place, info, come))
		}
	}
	return room
}

// beside is for how many such pods a node has room beside those that have a place there then, and those who stay for longer.
func (c *Closed) beside(promise *Promise, place *Place, info fwk.NodeInfo, come []cycle.Ask) int {
	var stay []fwk.PodInfo
	counted := false
	room := int64(math.MaxInt)
	for _, ask := range c.asks {
		need := cycle.SumOf(place.Needs, ask.Resource)
		if need == 0 {
			continue
		}
		offered, _ := cycle.AmountOf(info, ask.Resource)
		offered -= cycle.SumOf(come, ask.Resource)
		if offered-need < ask.Amount {
			return 0
		}
		if !counted {
			stay, counted = c.staying(promise, place, info), true
		}
		room = min(room, max(0, offered-need-cycle.HeldBy(stay, ask.Resource))/ask.Amount)
	}
	return int(room)
}

// staying are those who are on a node for longer than until the time of a promise.
func (c *Closed) staying(promise *Promise, place *Place, info fwk.NodeInfo) (stay []fwk.PodInfo) {
	gone := reservation.Gone
	if c.of != nil && promise.Expected {
		gone = c.of.Gone
	}
	for _, on := range info.GetPods() {
		pod := on.GetPod()
		if place.Leaving.Has(pod.UID) {
			continue
		}
		if at, ends := gone(pod, c.now); !ends || at.After(promise.At) {
			stay = append(stay, on)
		}
	}
	return stay
}

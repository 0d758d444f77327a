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

// Promise is a reserved start of a job.
type Promise struct {
	// Turn is the job and its queue position.
	Turn
	// Pool is the pool in whose queue the job is the first, "" for pods without a pool. There is one reservation in each.
	Pool string
	// At is when all of the job fits, at the latest.
	At time.Time
	// Expected says that it rests on expected ends of pods without a deadline, and not on deadlines alone.
	Expected bool
	// Domain is the innermost topology domain of the whole job, such as "rack r1"; "" if it requested no level, or fits in none.
	Domain string
	// Places are what it needs, by node.
	Places map[string]Place
	// barred are the namespaces whose pods have stayed too often beyond their expected end.
	barred sets.Set[string]
	// told is the earliest start since the other pods were last notified of a delay.
	told time.Time
}

// Place is what a job has reserved of a node.
type Place struct {
	Needs []cycle.Ask
	// Leaving are the pods that are gone by then.
	Leaving sets.Set[types.UID]
}

// Turn is the position of a job in the queue: by its priority, then by its creation time.
type Turn struct {
	// Job names it.
	Job      string
	Priority int32
	Since    time.Time
	// Members is how many of its pods start together, 0 for one.
	Members int
}

// Before reports whether a job comes before another one. Among jobs created in the same second, the resolution of Kubernetes' timestamps, none
// does, so a reservation of one binds the others.
func (t Turn) Before(other Turn) bool {
	return cmp.Or(cmp.Compare(other.Priority, t.Priority), t.Since.Compare(other.Since)) < 0
}

// lapse is how long after its time an unrenewed reservation counts: as long as the queue of a busy scheduler may delay the job that
// would renew it.
const lapse = 10 * time.Minute

// Counts reports whether a reservation keeps other pods out at a time.
func (p *Promise) Counts(now time.Time) bool { return now.Before(p.At.Add(lapse)) }

// Book is all reservations. It never changes; nil has none.
type Book struct {
	promises []*Promise
	// version differs from that of all other states.
	version uint64
	// of is the object that this is a state of. nil uses no expected ends.
	of *Promises
}

// Of returns the reservation of a job, nil for none.
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

// First returns the reservation in force in the queue of a pool, nil for none.
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

// Against returns what other jobs have reserved of the places that a pod could take, nil for nothing. It visits each reservation.
func (b *Book) Against(pod *corev1.Pod, turn Turn, now time.Time) *Closed {
	return b.closed(counting(b.binding(pod, turn, now), now), pod, now)
}

// Behind returns what jobs behind a pod in the queue have reserved and the pod would delay, nil for nothing. The pod may use that all
// the same.
func (b *Book) Behind(pod *corev1.Pod, turn Turn, now time.Time) *Closed {
	return b.closed(counting(b.touched(pod, turn, now, turn.Before), now), pod, now)
}

func (b *Book) closed(promises []*Promise, pod *corev1.Pod, now time.Time) *Closed {
	if len(promises) == 0 {
		return nil
	}
	return &Closed{promises: promises, asks: cycle.AsksOf(pod), now: now, of: b.of}
}

// counting returns the reservations that are in force at a time.
func counting(promises []*Promise, now time.Time) []*Promise {
	return slices.DeleteFunc(promises, func(promise *Promise) bool { return !promise.Counts(now) })
}

// binding returns the reservations of other jobs that a pod must respect while they are in force: those of earlier jobs, unless the
// pod is gone in time.
func (b *Book) binding(pod *corev1.Pod, turn Turn, now time.Time) []*Promise {
	return b.touched(pod, turn, now, func(other Turn) bool { return !turn.Before(other) })
}

// touched returns the reservations of other jobs, among those selected by meant, that conflict with a pod: it would still be on
// the nodes at their time.
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

// trusts reports whether it is enough that a pod of a namespace is expected to be gone in time. A reservation that rests on deadlines is
// protected by deadlines: a pod that lasts longer than its predecessors must not delay a start that nothing else could.
func (p *Promise) trusts(namespace string, now time.Time) bool {
	return p.Expected && now.Sub(p.Since) < trust && !p.barred.Has(namespace)
}

// Closed is what other jobs have reserved of nodes. nil is nothing.
type Closed struct {
	promises []*Promise
	asks     []cycle.Ask
	now      time.Time
	of       *Promises
}

// Room returns how many such pods a node has room for beside what is reserved of it and other pods that arrive with them, math.MaxInt if nothing
// is reserved.
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

// beside returns how many such pods a node has room for beside the members of a reservation, and the pods that stay longer.
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

// staying returns the pods that stay on a node beyond the time of a reservation.
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

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

// StartReservation is a reserved start of a job.
type StartReservation struct {
	// Turn is the job and its queue position.
	QueuePosition
	// Pool is the pool in whose queue the job is the first, "" for pods without a pool. There is one reservation in each.
	Pool string
	// At is when all of the job fits, at the latest.
	At time.Time
	// Expected says that it rests on expected ends of pods without a deadline, and not on deadlines alone.
	Expected bool
	// Domain is the innermost topology domain of the whole job, such as "rack r1"; "" if it requested no level, or fits in none.
	Domain string
	// Places are what it needs, by node.
	Places map[string]NodeReservation
	// barredNamespaces are the namespaces whose pods have stayed too often beyond their expected end.
	barredNamespaces sets.Set[string]
	// notifiedStart is the earliest start since the other pods were last notified of a delay.
	notifiedStart time.Time
}

// NodeReservation is what a job has reserved of a node.
type NodeReservation struct {
	Needs []cycle.ResourceRequest
	// Leaving are the pods that are gone by then.
	Leaving sets.Set[types.UID]
}

// QueuePosition is the position of a job in the queue: by its priority, then by its creation time.
type QueuePosition struct {
	// Job names it.
	Job      string
	Priority int32
	Since    time.Time
	// Members is how many of its pods start together, 0 for one.
	Members int
}

// SortsBefore reports whether a job comes before another one. Among jobs created in the same second, the resolution of Kubernetes' timestamps, none
// does, so a reservation of one binds the others.
func (t QueuePosition) SortsBefore(other QueuePosition) bool {
	return cmp.Or(cmp.Compare(other.Priority, t.Priority), t.Since.Compare(other.Since)) < 0
}

// reservationLapse is how long after its time an unrenewed reservation counts: as long as the queue of a busy scheduler may delay the job that
// would renew it.
const reservationLapse = 10 * time.Minute

// IsInForce reports whether a reservation keeps other pods out at a time.
func (p *StartReservation) IsInForce(now time.Time) bool {
	return now.Before(p.At.Add(reservationLapse))
}

// ReservationSet is all reservations. It never changes; nil has none.
type ReservationSet struct {
	reservations []*StartReservation
	// version differs from that of all other states.
	version uint64
	// owner is the object that this is a state of. nil uses no expected ends.
	owner *StartReservations
}

// ForJob returns the reservation of a job, nil for none.
func (b *ReservationSet) ForJob(job string) *StartReservation {
	if b == nil {
		return nil
	}
	for _, promise := range b.reservations {
		if promise.Job == job {
			return promise
		}
	}
	return nil
}

// FirstInPool returns the reservation in force in the queue of a pool, nil for none.
func (b *ReservationSet) FirstInPool(pool string, now time.Time) *StartReservation {
	if b == nil {
		return nil
	}
	for _, promise := range b.reservations {
		if promise.Pool == pool && promise.IsInForce(now) {
			return promise
		}
	}
	return nil
}

// ReservedFrom returns what other jobs have reserved of the places that a pod could take, nil for nothing. It visits each reservation.
func (b *ReservationSet) ReservedFrom(pod *corev1.Pod, turn QueuePosition, now time.Time) *ReservedRoom {
	return b.newReservedRoom(filterInForce(b.bindingReservations(pod, turn, now), now), pod, now)
}

// ReservedBehind returns what jobs behind a pod in the queue have reserved and the pod would delay, nil for nothing. The pod may use that all
// the same.
func (b *ReservationSet) ReservedBehind(pod *corev1.Pod, turn QueuePosition, now time.Time) *ReservedRoom {
	return b.newReservedRoom(filterInForce(b.conflictingReservations(pod, turn, now, turn.SortsBefore), now), pod, now)
}

func (b *ReservationSet) newReservedRoom(promises []*StartReservation, pod *corev1.Pod, now time.Time) *ReservedRoom {
	if len(promises) == 0 {
		return nil
	}
	return &ReservedRoom{reservations: promises, asks: cycle.PodResourceRequests(pod), now: now, owner: b.owner}
}

// filterInForce returns the reservations that are in force at a time.
func filterInForce(promises []*StartReservation, now time.Time) []*StartReservation {
	return slices.DeleteFunc(promises, func(promise *StartReservation) bool { return !promise.IsInForce(now) })
}

// bindingReservations returns the reservations of other jobs that a pod must respect while they are in force: those of earlier jobs, unless the
// pod is gone in time.
func (b *ReservationSet) bindingReservations(pod *corev1.Pod, turn QueuePosition, now time.Time) []*StartReservation {
	return b.conflictingReservations(pod, turn, now, func(other QueuePosition) bool { return !turn.SortsBefore(other) })
}

// conflictingReservations returns the reservations of other jobs, among those selected by meant, that conflict with a pod: it would still be on
// the nodes at their time.
func (b *ReservationSet) conflictingReservations(pod *corev1.Pod, turn QueuePosition, now time.Time, meant func(QueuePosition) bool) (promises []*StartReservation) {
	if b == nil {
		return nil
	}
	stay, limited := reservation.MaxStay(pod)
	expected, known := time.Duration(0), false
	if b.owner != nil && !limited {
		expected, known = b.owner.expected.expectedStay(pod, turn.Members)
	}
	for _, promise := range b.reservations {
		switch {
		case promise.Job == turn.Job, !meant(promise.QueuePosition):
		case limited && !now.Add(stay).After(promise.At):
		case known && promise.trustsExpectedEnd(pod.Namespace, now) && !now.Add(expected).After(promise.At):
		default:
			promises = append(promises, promise)
		}
	}
	return promises
}

// trustsExpectedEnd reports whether it is enough that a pod of a namespace is expected to be gone in time. A reservation that rests on deadlines is
// protected by deadlines: a pod that lasts longer than its predecessors must not delay a start that nothing else could.
func (p *StartReservation) trustsExpectedEnd(namespace string, now time.Time) bool {
	return p.Expected && now.Sub(p.Since) < trustPeriod && !p.barredNamespaces.Has(namespace)
}

// ReservedRoom is what other jobs have reserved of nodes. nil is nothing.
type ReservedRoom struct {
	reservations []*StartReservation
	asks         []cycle.ResourceRequest
	now          time.Time
	owner        *StartReservations
}

// RoomFor returns how many such pods a node has room for beside what is reserved of it and other pods that arrive with them, math.MaxInt if nothing
// is reserved.
func (c *ReservedRoom) RoomFor(info fwk.NodeInfo, come ...cycle.ResourceRequest) int {
	room := math.MaxInt
	if c == nil || info.Node() == nil {
		return room
	}
	for _, promise := range c.reservations {
		if place, ok := promise.Places[info.Node().Name]; ok && room > 0 {
			room = min(room, c.roomBeside(promise, &place, info, come))
		}
	}
	return room
}

// roomBeside returns how many such pods a node has room for beside the members of a reservation, and the pods that stay longer.
func (c *ReservedRoom) roomBeside(promise *StartReservation, place *NodeReservation, info fwk.NodeInfo, come []cycle.ResourceRequest) int {
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
			stay, counted = c.stayingPods(promise, place, info), true
		}
		room = min(room, max(0, offered-need-cycle.HeldBy(stay, ask.Resource))/ask.Amount)
	}
	return int(room)
}

// stayingPods returns the pods that stay on a node beyond the time of a reservation.
func (c *ReservedRoom) stayingPods(promise *StartReservation, place *NodeReservation, info fwk.NodeInfo) (stay []fwk.PodInfo) {
	gone := reservation.GoneBy
	if c.owner != nil && promise.Expected {
		gone = c.owner.ExpectedEnd
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

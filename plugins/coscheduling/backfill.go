package coscheduling

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

const (
	// renewal is how often the earliest start of a waiting job is computed again.
	renewal = 30 * time.Second
	// doubt is how long a job gets no start reservation after it had room for all members and another plugin rejected it. It doubles
	// each time, up to maxSuspectTime. The obstacle may be permanent, and the job would be first in line each time, holding nodes that no other
	// job can reserve.
	doubt, mostDoubt = 10 * time.Minute, 24 * time.Hour
	// searchShare bounds the time spent on searches for jobs without a start reservation: one part in so many.
	searchShare = 50
	// forecastBudget is how many pods one such search may visit, counting a pod each time its node is tried.
	forecastBudget = 500_000
)

// searches records when earliest starts were computed.
type searches struct {
	mu sync.Mutex
	// next is when a job may be searched again. poolRestUntil is until when no search is done for unreserved jobs in the queue of a pool.
	next  map[string]time.Time
	rests map[string]time.Time
	// doubts are the last suspect times of jobs.
	doubts map[string]time.Duration
	// followed are the jobs whose reservations are renewed by a timer.
	followed sets.Set[string]
}

// mostSearches is how many jobs, and how many pools, are remembered.
const mostSearches = 10_000

// may reports whether a search for a job is allowed now.
func (s *searches) may(job, pool string, promised bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.next[job]) && (promised || !now.Before(s.rests[pool]))
}

// done records a search that took from one time to another.
func (s *searches) done(job, pool string, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.next, job, from.Add(renewal), to)
	put(&s.rests, pool, to.Add(searchShare*to.Sub(from)), to)
}

// doubt denies a job start reservations for a while.
func (s *searches) doubt(job string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.doubts) >= mostSearches || s.doubts == nil {
		s.doubts = map[string]time.Duration{}
	}
	s.doubts[job] = min(max(doubt, 2*s.doubts[job]), mostDoubt)
	put(&s.next, job, now.Add(s.doubts[job]), now)
}

// put stores a time, and drops expired entries when there are too many.
func put(times *map[string]time.Time, key string, until, now time.Time) {
	if len(*times) >= mostSearches {
		maps.DeleteFunc(*times, func(_ string, next time.Time) bool { return next.Before(now) })
	}
	if *times == nil || len(*times) >= mostSearches {
		*times = map[string]time.Time{}
	}
	(*times)[key] = until
}

// follow reports whether the reservation of a job has no renewal timer yet, and claims it. stopWatching ends that.
func (s *searches) follow(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed.Has(job) {
		return false
	}
	if s.followed == nil {
		s.followed = sets.New[string]()
	}
	s.followed.Insert(job)
	return true
}

func (s *searches) leave(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed.Delete(job)
}

// lineUp returns the queue position of a pod. A member has the position of its gang.
func (p *Plugin) lineUp(pod *corev1.Pod) backfill.Turn {
	turn := backfill.Turn{Job: string(pod.UID), Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time}
	if name, ok := p.groups.groupOf(pod); ok {
		if group := p.groups.get(name); unusable(group) == "" {
			turn.Job, turn.Since, turn.Members = jobOf(gangOf(pod, group)), since(pod, group), group.minMember
		}
	}
	return turn
}

// jobOf returns the unique job name of a gang.
func jobOf(g gang) string { return g.group.String() + "/" + string(g.owner) }

// promise reserves the earliest possible start for a job that does not fit, if the job is first in the queue of its pool among those that can
// get a reservation. It returns the message for the job, "" for none.
func (p *Plugin) promise(group *podGroup, m *members, refused fwk.NodeToStatusReader) string {
	if p.promises.Horizon() == 0 {
		return ""
	}
	now := p.now()
	if now.IsZero() { // in a simulation nothing ends and the clock stands still
		return ""
	}
	turn, pool := p.lineUp(m.waiting[0]), gpu.PodPool(m.waiting[0])
	book := p.promises.Book()
	own, first := book.Of(turn.Job), book.First(pool, now)
	if first != nil && first.Job != turn.Job && !turn.Before(first.Turn) || !p.lacksRoomAlone(group, m, refused) {
		p.promises.End(turn.Job)
		return ""
	}
	if p.searches.may(turn.Job, pool, own != nil, now) {
		own = p.renew(group, m, turn, own, refused)
	}
	if own == nil {
		return ""
	}
	return toldOf(own)
}

// toldOf is the message that tells a job about its start reservation.
func toldOf(own *backfill.Promise) string {
	somewhere, in := reason.Promised, reason.PromisedIn
	if own.Expected {
		somewhere, in = reason.PromisedAsExpected, reason.PromisedInAsExpected
	}
	at := own.At.UTC().Format(time.RFC3339)
	if own.Domain == "" {
		return somewhere.Text.Of(len(own.Places), at)
	}
	return in.Text.Of(len(own.Places), own.Domain, at)
}

// renew computes the earliest start of a job and reserves it. It returns nil if nothing can be reserved.
func (p *Plugin) renew(group *podGroup, m *members, turn backfill.Turn, own *backfill.Promise, refused fwk.NodeToStatusReader) *backfill.Promise {
	now, pool := p.now(), gpu.PodPool(m.waiting[0])
	p.promises.SettleBets(turn.Job, func(name types.NamespacedName, uid types.UID) bool {
		pod := p.living(name, uid)
		return pod != nil && pod.Spec.NodeName != ""
	})
	own, fits := p.earliest(group, m, now, own, refused)
	p.searches.done(turn.Job, pool, now, p.now())
	if fits && group.minMember == 1 { // for a gang, PostFilter does this: breakReservation
		p.searches.doubt(turn.Job, now)
	}
	if own == nil {
		p.promises.End(turn.Job)
		return nil
	}
	own.Turn, own.Pool = turn, pool
	p.promises.Give(own)
	if p.searches.follow(turn.Job) {
		p.lookAgain(turn.Job, m.waiting[0])
	}
	return own
}

// lacksRoomAlone reports whether a job only waits for other pods to end: it is whole, within its quota, is not waiting for a better placement,
// and no other plugin keeps it from all nodes.
func (p *Plugin) lacksRoomAlone(group *podGroup, m *members, refused fwk.NodeToStatusReader) bool {
	if m.missing(group.minMember) != "" || len(group.minResources) > 0 || overQuota(p.requestOf(group, m)) != "" {
		return false
	}
	if group.minMember == 1 {
		return lacksRoom(refused, p.nodeNames())
	}
	return !p.places.waitsByChoice(gangOf(m.waiting[0], group)) && (refused == nil || refused.Get("").Plugin() == Name)
}

// nodeNames returns the names of the nodes of the snapshot.
func (p *Plugin) nodeNames() (names []string) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // it is in memory
	}
	for _, info := range nodes {
		names = append(names, info.Node().Name)
	}
	return names
}

// lacksRoom reports whether a node refused a pod because of the pods that are on it, or that have reserved it.
func lacksRoom(refused fwk.NodeToStatusReader, nodes []string) bool {
	return refused == nil || slices.ContainsFunc(nodes, func(node string) bool {
		status := refused.Get(node)
		_, promised := reason.KeptForFirst.Text.In(status.Message())
		return promised || isKeptWhole(status) || status.Code() == fwk.Unschedulable && ofRoom.Has(status.Plugin())
	})
}

// ofRoom are the plugins that refuse nodes which are full, by name: no plugin knows another one.
var ofRoom = sets.New("GPUFilter", "NodeResourcesFit")

// lookAgain activates a job with a start reservation twice a minute. It ends the reservation when no pod of the job waits any more, or when it
// has not been renewed for long. No event in the cluster reports a pod that did not end in time, or changed labels. Pods that the reservation
// kept out are retried when it ends.
func (p *Plugin) lookAgain(job string, pod *corev1.Pod) {
	if p.replay {
		return
	}
	time.AfterFunc(renewal, func() {
		promise := p.promises.Book().Of(job)
		if promise == nil {
			p.searches.leave(job)
			return
		}
		next := p.waitingOf(job, pod)
		if next == nil || !promise.Counts(p.now()) {
			p.searches.leave(job)
			p.promises.End(job)
			return
		}
		p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(next).String(): next})
		p.lookAgain(job, next)
	})
}

// waitingOf returns a waiting pod of a job, nil if there is none. It prefers the given pod.
func (p *Plugin) waitingOf(job string, pod *corev1.Pod) *corev1.Pod {
	candidates := []*corev1.Pod{p.living(nameOf(pod), pod.UID)}
	if name, ok := p.groups.groupOf(pod); ok {
		if group := p.groups.get(name); group != nil {
			candidates = append(candidates, p.podsIn(gangOf(pod, group), group)...)
		}
	}
	for _, other := range candidates {
		if other != nil && lives(other) && p.placeOf(other) == none && len(other.Spec.SchedulingGates) == 0 && p.lineUp(other).Job == job {
			return other
		}
	}
	return nil
}

// breakPromise ends the reservation of a job that has room for all members and is rejected by another plugin. The obstacle may be permanent, and
// would keep out other jobs as well. It does nothing if a member found no room.
func (p *Plugin) breakPromise(pod *corev1.Pod, refused fwk.NodeToStatusReader) {
	job := p.lineUp(pod).Job
	if p.promises.Book().Of(job) == nil || refused != nil && lacksRoom(refused, p.nodeNames()) {
		return
	}
	p.searches.doubt(job, p.now())
	p.promises.End(job)
}

// promiseOne is reserveStart for a pod without a gang.
func (p *Plugin) promiseOne(pod *corev1.Pod, refused fwk.NodeToStatusReader) string {
	_, group, m := aloneOf(pod)
	return p.promise(group, &m, refused)
}

// earliest returns where and when a job fits first, nil if it does not fit in time. A job with a reservation keeps its places as long as it
// starts there by then. fits says that there is room now, so that something else keeps the job out.
func (p *Plugin) earliest(group *podGroup, m *members, now time.Time, before *backfill.Promise, refused fwk.NodeToStatusReader) (first *backfill.Promise, fits bool) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, false // it is in memory
	}
	b := p.bearingOf(nodes)
	b.whole = keptWhole(nodes, refused)
	b.kept, _ = p.keptFor(gangOf(m.waiting[0], group), group, m)
	of := p.partyOf(group.layout, needed(group, m), m)
	if of.varied {
		return nil, false
	}
	seats, err := b.seatsOf(of.kinds)
	if err != nil {
		return nil, false // GPUFilter reports what is wrong with the pod
	}
	on := siteOf(group.layout, seats, b)
	on.seatIn(of)
	f := forecastOf(on, now, forecastBudget, reservation.Gone)
	standing := f.positions(p.places.nodesOf(m.placed))
	if fits, _ := gangplan.Make(f.problem(of.kinds, standing, f.free)); fits != nil {
		return f.asBefore(before, p.backsOff(gangOf(m.waiting[0], group), now)), true
	}
	latest := now.Add(p.promises.Horizon())
	first = f.firstBy(of.kinds, standing, latest, kept(before, false))
	if first == nil && f.left >= 0 && p.promises.Learns() {
		f = forecastOf(on, now, forecastBudget, p.promises.Gone)
		if first = f.firstBy(of.kinds, standing, latest, kept(before, true)); first != nil {
			first.Expected = true
		}
	}
	return first, false
}

// kept returns a reservation that rests on the same grounds as a new one, deadlines alone or expected ends; nil if it does not.
func kept(before *backfill.Promise, expected bool) *backfill.Promise {
	if before == nil || before.Expected != expected {
		return nil
	}
	return before
}

// firstBy returns where members fit first by a time, nil for nowhere. It prefers the places of an existing reservation, as long as they start
// there by then.
func (f *forecast) firstBy(waiting []kind, standing []int, latest time.Time, before *backfill.Promise) *backfill.Promise {
	at, plan := f.search(waiting, standing, latest, nil)
	if plan == nil || f.left < 0 {
		return nil
	}
	if before != nil {
		again, same := f.search(waiting, standing, latest, before)
		if same != nil && f.left >= 0 && (!again.After(at) || !again.After(before.At)) {
			at, plan = again, same
		}
	}
	return f.promised(waiting, plan, at)
}

// asBefore keeps the reservation of a job that has room now and only backs off for a moment. It returns nil if something other than room keeps
// the job out.
func (*forecast) asBefore(before *backfill.Promise, backsOff bool) *backfill.Promise {
	if before == nil || !backsOff {
		return nil
	}
	again := *before
	return &again
}

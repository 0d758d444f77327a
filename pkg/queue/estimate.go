package queue

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// entryDemand is what an entry needs of nodes.
type entryDemand struct {
	requests []*fit.Request
	// together is true if the pods are a gang.
	together bool
	// owner is the controller of the pods.
	owner types.UID
	// beyondNodes is what blocks the pods by the scheduler's last verdict and no node shows.
	beyondNodes *diagnosis.Finding
	// confined pods start when one domain of the topology has room for all, at an unknown time.
	confined bool
	// promisedStart is the start that the scheduler has announced, the zero time if it has not.
	promisedStart time.Time
	// placed is how many of the requests have their place as the queue is played forward.
	placed int
	// overQuota is true if the entry waits for a GPUQuota, which others may release. keeper is the quota that blocks it as the queue is played
	// forward, "" if unknown.
	overQuota     bool
	limitingQuota string
}

// startsTogether reports whether the pods start all at once or not at all. Others, such as the tasks of an array, start one by one.
func (w *entryDemand) startsTogether() bool { return w.together }

// simulatedNode is a node that is played forward.
type simulatedNode struct {
	*fit.Node
	free int64
}

func (m *simulatedNode) placePod(request *fit.Request) bool {
	placed := m.PlacePod(request)
	m.free = m.FreeGPUs()
	return placed
}

func (m *simulatedNode) removePod(pod *corev1.Pod) {
	m.RemovePod(pod)
	m.free = m.FreeGPUs()
}

// release is the time at which a pod releases what it holds, at the latest.
type release struct {
	at   time.Time
	node string
	pod  *corev1.Pod
	// replaced pods have a limit of their own: the next task of their array, or their next run, follows.
	replaced bool
}

// podRelease is when a pod that started at a time ends, by the limit of its Job or its own; false without a limit.
func podRelease(pod *corev1.Pod, node string, start time.Time, limits map[types.UID]time.Time) (release, bool) {
	end, limited := limits[controllerUID(pod)]
	out := release{at: end, node: node, pod: pod}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil && !start.IsZero() {
		own := start.Add(time.Duration(*seconds) * time.Second)
		if !limited || own.Before(end) {
			out.at, out.replaced = own, true
		}
		limited = true
	}
	return out, limited
}

// estimateStarts fills in when entries start. It plays the queues forward: at each end of a job with a time limit, it tries the entries in order, with the
// checks that gpuctl why and the scheduler share. Pods without a known end are never released, so whatever depends on them stays unknown, rather than
// guessed. It returns the pools with queues.
func estimateStarts(entries []Entry, objects *snapshot.Snapshot, now time.Time) map[string]*pool {
	limits, pools := jobDeadlines(objects.Jobs), map[string]*pool{}
	var topologies gpu.Topologies
	for start := 0; start < len(entries); {
		end := start
		for end < len(entries) && entries[end].Pool == entries[start].Pool {
			end++
		}
		if len(objects.Nodes) > 0 {
			line := newPoolQueue(entries[start:end], objects, now, &topologies)
			line.playForward(limits)
			line.applyPromisedStarts()
			pools[line.pool.name] = line.pool
		}
		start = end
	}
	return pools
}

// jobDeadlines are the latest end times of jobs with a time limit. Kubernetes counts it from the creation of the pods, including the time in the queue.
func jobDeadlines(jobs []batchv1.Job) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for i := range jobs {
		seconds, began := jobs[i].Spec.ActiveDeadlineSeconds, jobs[i].Status.StartTime
		if seconds != nil && began != nil {
			out[jobs[i].UID] = began.Add(time.Duration(*seconds) * time.Second)
		}
	}
	return out
}

// poolQueue is the queue of one pool, played forward.
type poolQueue struct {
	entries  []Entry
	pool     *pool
	machines map[string]*simulatedNode
	releases []release
	// start is when it is played, now how far.
	start, now time.Time
	// backlog are the entries before the next that a quota blocks.
	backlog quotaBacklog
	next    int
	// reservations keep nodes from entries until they end.
	reservations *reservation.Book
	shares       *quotaShares
}

func newPoolQueue(entries []Entry, objects *snapshot.Snapshot, now time.Time, topologies *gpu.Topologies) *poolQueue {
	l := &poolQueue{
		entries: entries, pool: newPool(objects.Nodes, entries[0].Pool, topologies), machines: map[string]*simulatedNode{}, start: now, now: now,
		reservations: reservation.BookOf(objects.GPUReservations),
	}
	l.shares = newQuotaShares(objects, l.pool)
	on := fit.ByNode(objects.Pods)
	limits := jobDeadlines(objects.Jobs)
	for i := range l.pool.nodes {
		node := &l.pool.nodes[i]
		l.machines[node.Name] = &simulatedNode{Node: fit.NewNode(node, on[node.Name], topologies)}
		l.machines[node.Name].free = l.machines[node.Name].FreeGPUs()
		for _, pod := range on[node.Name] {
			var start time.Time // the node counts from when it took the pod
			if pod.Status.StartTime != nil {
				start = pod.Status.StartTime.Time
			}
			if r, ok := podRelease(pod, node.Name, start, limits); ok {
				l.addRelease(r)
			}
		}
	}
	for i := range entries {
		l.judgeEntry(&entries[i])
	}
	return l
}

// judgeEntry marks entries that no node could ever hold, and those that currently start on no node.
func (l *poolQueue) judgeEntry(entry *Entry) {
	switch {
	case entry.Never, entry.Cause != "":
	case !l.pool.couldHold(&entry.demand), entry.demand.beyondNodes != nil && entry.demand.beyondNodes.Never:
		entry.Never = true
	case entry.demand.confined:
	case entry.demand.beyondNodes != nil && entry.demand.beyondNodes.Nodes == 0 && entry.demand.beyondNodes.Cause != reason.RejectedByScheduler:
		entry.setBlocked(*entry.demand.beyondNodes)
	default:
		if closed, ok := l.pool.closedFinding(entry.demand.requests[0]); ok {
			entry.setBlocked(closed)
		}
	}
}

// parsePromisedStart parses the start of a job that the scheduler announced, by the deadlines of running jobs; the zero time if it announced none.
func parsePromisedStart(message string) time.Time {
	values, ok := reason.StartReserved.ValuesIn(message)
	if !ok {
		values, ok = reason.StartReservedIn.ValuesIn(message)
	}
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, values[len(values)-1])
	if err != nil {
		return time.Time{} // the scheduler did not write that
	}
	return at
}

// applyPromisedStarts sets the start of entries to the one that the scheduler announced, if it is unknown or later by the simulation: the scheduler reserves
// nodes for them, and has more information.
func (l *poolQueue) applyPromisedStarts() {
	for i := range l.entries {
		entry := &l.entries[i]
		at := entry.demand.promisedStart
		if !entry.Never && entry.Cause == "" && at.After(l.start) && (entry.ETA == nil || at.Before(*entry.ETA)) {
			entry.ETA = &at
		}
	}
}

// addRelease records a future release, in the order of time.
func (l *poolQueue) addRelease(r release) {
	at, _ := slices.BinarySearchFunc(l.releases, r, func(a, b release) int { return a.at.Compare(b.at) })
	l.releases = slices.Insert(l.releases, at, r)
}

// startPods records that pods of an entry start now, and when they end.
func (l *poolQueue) startPods(entry *Entry, placed []release, limits map[types.UID]time.Time) {
	l.shares.addStarted(placed)
	entry.demand.placed += len(placed)
	if at := l.now; entry.ETA == nil {
		entry.ETA = &at
	}
	for _, on := range placed {
		if r, ok := podRelease(on.pod, on.node, l.now, limits); ok {
			l.addRelease(r)
		}
	}
}

// placeUntilFull puts pods on nodes up to the first that does not fit.
func (l *poolQueue) placeUntilFull(requests []*fit.Request) []release {
	var placed []release
	for _, request := range requests {
		on := l.tightestFit(request)
		if on == nil {
			break
		}
		placed = append(placed, release{node: on.Object.Name, pod: request.Pod})
	}
	return placed
}

func (l *poolQueue) undoPlacement(placed []release) {
	for _, r := range placed {
		l.machines[r.node].removePod(r.pod)
	}
}

// tightestFit puts a pod on the node with the fewest GPUs left afterwards, nil if it fits none.
func (l *poolQueue) tightestFit(request *fit.Request) *simulatedNode {
	need, closed := request.Demand.Whole, l.reservations.ClosedFor(request.Pod, l.now)
	var fitting []*simulatedNode
	for _, name := range l.pool.openNodes(request) {
		if m := l.machines[name]; m.free >= need && closed.FirstOn(m.Object) == nil {
			fitting = append(fitting, m)
		}
	}
	slices.SortFunc(fitting, func(a, b *simulatedNode) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	for _, m := range fitting {
		if m.placePod(request) {
			return m
		}
	}
	return nil
}

// controllerUID is the controller of a pod, "" for none.
func controllerUID(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

package queue

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/forecast"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// mostForecast is how many pods of a queue take part in a forecast. Pods behind them have none.
const mostForecast = 5000

// mostShapes is how many kinds of jobs take part, since each is tried whenever a job ends. The first job beyond that, and all jobs behind it, have no
// forecast.
const mostShapes = 30

// Outlook is between which moments jobs start.
type Outlook map[key]outlook

type outlook struct{ earliest, latest time.Time }

// Tell adds estimates to the entries that they are for and that do not start now. The estimates may be somewhat older than the queue.
func (q *Queue) Tell(of Outlook, now time.Time) {
	for i := range q.Entries {
		entry := &q.Entries[i]
		found, ok := of[entry.key()]
		if !ok || !entry.uncertain(now) || found.latest.Before(now) {
			continue
		}
		earliest, latest := later(found.earliest, now), found.latest
		if entry.ETA != nil && entry.ETA.Before(latest) { // if all before it use all of their time
			latest = *entry.ETA
		}
		if latest.Before(earliest) {
			earliest = latest
		}
		entry.Earliest, entry.Latest, entry.Confidence = &earliest, &latest, forecast.Confidence
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (e *Entry) key() key { return key{e.Namespace, e.Kind, e.Name} }

// Outlook estimates between which moments entries start, from how long similar jobs have run. It covers only jobs that wait for room, and only if
// enough history is known. objects are those that the queue was built from.
//
// It counts whole GPUs, CPU, memory and pods, and the maxima of GPUQuotas. There are no estimates for jobs that request a part of a GPU, for a pool
// with reserved nodes, or for gangs: smaller jobs that arrive later get past a gang, and are not known yet (docs/benchmarks/queueing.md has how far
// off it would be).
func (q *Queue) Outlook(objects *snapshot.Snapshot, past *survival.History, now time.Time) Outlook {
	out := Outlook{}
	if past == nil || len(objects.Nodes) == 0 {
		return out
	}
	known, lines := peopleOf(objects), q.uncertainLines(now)
	for _, entries := range lines {
		f := &forecaster{
			entries: entries, pool: q.pools[entries[0].Pool], known: known, past: past, now: now, limits: ends(objects.Jobs),
			quotas: quotasOf(objects.GPUQuotas, entries[0].Pool), shapes: map[string]int{}, left: map[*Entry]bool{}, budget: budgetOf(len(lines)),
		}
		if !f.reserved(objects.GPUReservations) {
			f.stage(objects.Pods)
			f.tell(out)
		}
	}
	return out
}

// budgetOf is the cost limit of each forecast of that many queues, of which there are two: all of them share one budget.
func budgetOf(lines int) int { return forecast.Budget / (2 * lines) }

// uncertainLines returns the entries of each pool in which a forecast may improve some estimates.
func (q *Queue) uncertainLines(now time.Time) (out [][]Entry) {
	for start := 0; start < len(q.Entries); {
		end := start
		for end < len(q.Entries) && q.Entries[end].Pool == q.Entries[start].Pool {
			end++
		}
		entries := q.Entries[start:end]
		if q.pools[entries[0].Pool] != nil && slices.ContainsFunc(entries, func(e Entry) bool { return e.uncertain(now) }) {
			out = append(out, entries)
		}
		start = end
	}
	return out
}

// uncertain reports whether a forecast may improve the estimate of an entry: there is no room for it now.
func (e *Entry) uncertain(now time.Time) bool {
	return e.waitsForRoom() && (e.ETA == nil || e.ETA.After(now))
}

// waitsForRoom reports whether an entry waits only for room, on nodes and in quotas, and not for an eviction.
func (e *Entry) waitsForRoom() bool {
	counted := e.Cause == "" || e.wish.overQuota
	return e.Position > 0 && !e.Never && !e.Reclaims && counted && !e.wish.confined && len(e.wish.requests) > 0
}

// people are the users of jobs, and the start times of jobs with pods that have already succeeded: their other pods come after those, as tasks of an
// array do.
type people struct {
	users  map[key]string
	begins map[types.UID]time.Time
}

func peopleOf(objects *snapshot.Snapshot) people {
	out := people{users: map[key]string{}, begins: map[types.UID]time.Time{}}
	for i := range objects.Jobs {
		job := &objects.Jobs[i]
		out.users[key{job.Namespace, job.Labels[names.LabelJobType], job.Labels[names.LabelJob]}] = job.Annotations[names.AnnotationUser]
		if job.Status.StartTime != nil && job.Status.Succeeded > 0 { // its pods take turns
			out.begins[job.UID] = job.Status.StartTime.Time
		}
	}
	for i := range objects.Deployments {
		d := &objects.Deployments[i]
		out.users[key{d.Namespace, d.Labels[names.LabelJobType], d.Labels[names.LabelJob]}] = d.Annotations[names.AnnotationUser]
	}
	return out
}

// forecaster translates the queue of a pool for a forecast.
type forecaster struct {
	entries []Entry
	pool    *pool
	known   people
	past    *survival.History
	now     time.Time
	limits  map[types.UID]time.Time
	quotas  []gpuquota.Quota
	// state is the pool, and places are the entries by the position of their first pod in the queue.
	state  forecast.State
	places map[int]*Entry
	shapes map[string]int
	// left are entries that do not start although there is room for them.
	left map[*Entry]bool
	// budget is what a forecast may cost.
	budget int
}

// reserved reports whether a reservation keeps nodes of the pool, or will.
func (f *forecaster) reserved(objects []names.GPUReservation) bool {
	for i := range objects {
		window := reservation.Of(&objects[i])
		if window.To.After(f.now) && slices.ContainsFunc(f.pool.nodes, func(node corev1.Node) bool { return window.Keeps(&node) }) {
			return true
		}
	}
	return false
}

// tell computes when entries start. If there is room for an entry at once and the scheduler has refused it nevertheless, it waits for something that
// is not counted here. It is skipped in the second run, as it takes no room.
func (f *forecaster) tell(out Outlook) {
	f.line()
	starts := forecast.Starts(&f.state, len(f.state.Waiting)-1, f.budget)
	for place, entry := range f.places {
		if at := starts[place]; at.Known && at.Latest == 0 && entry.Message != "" && entry.uncertain(f.now) {
			f.left[entry] = true
		}
	}
	if len(f.left) > 0 {
		f.line()
		starts = forecast.Starts(&f.state, len(f.state.Waiting)-1, f.budget)
	}
	for place, entry := range f.places {
		overtaken := entry.wish.together() && entry.Pods > 1
		if at := starts[place]; at.Known && !overtaken {
			out[entry.key()] = outlook{f.now.Add(at.Earliest).Truncate(time.Second), f.now.Add(at.Latest).Truncate(time.Second)}
		}
	}
}

// line collects the entries that wait for room, in order. Pods that start one by one are separate items.
func (f *forecaster) line() {
	f.state.Waiting, f.places = f.state.Waiting[:0], map[int]*Entry{}
	for i := range f.entries {
		entry := &f.entries[i]
		if !entry.waitsForRoom() || f.left[entry] || slices.ContainsFunc(entry.wish.requests, parts) {
			continue
		}
		together := [][]*fit.Request{entry.wish.requests}
		if !entry.wish.together() {
			together = slices.Collect(slices.Chunk(entry.wish.requests, 1))
		}
		if len(f.state.Waiting)+len(together) > mostForecast {
			return
		}
		shapes := make([]int, len(together))
		for i, requests := range together {
			if shapes[i] = f.shape(requests); shapes[i] < 0 {
				return
			}
		}
		f.places[len(f.state.Waiting)] = entry
		runs := f.past.Remaining(f.job(keyOf(entry.wish.requests[0].Pod), entry.GPUs), 0, f.limitOf(entry))
		for _, shape := range shapes {
			f.state.Waiting = append(f.state.Waiting, forecast.Waiting{Shape: shape, Runs: runs})
		}
	}
}

// parts reports whether a pod requests parts of GPUs, which are not counted.
func parts(r *fit.Request) bool { return r.Demand.Shared > 0 || r.Demand.MIG > 0 }

func (f *forecaster) job(of key, gpus int64) survival.Job {
	return survival.Job{Namespace: of.namespace, User: f.known.users[of], Pool: f.pool.name, GPUs: gpus}
}

// limitOf is how long an entry may run once it has started, 0 without a limit. A Job also counts its time in the queue.
func (f *forecaster) limitOf(entry *Entry) time.Duration {
	var limit time.Duration
	if seconds := entry.wish.requests[0].Pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		limit = time.Duration(*seconds) * time.Second
	}
	if end, ok := f.limits[entry.wish.owner]; ok && (limit == 0 || end.Sub(f.now) < limit) {
		limit = max(end.Sub(f.now), time.Second)
	}
	return limit
}

// shape is the number of a kind of request, -1 if there are too many kinds.
func (f *forecaster) shape(requests []*fit.Request) int {
	alike := make([]byte, 0, 1024)
	shares := f.sharesOf(requests)
	for _, request := range requests {
		alike = append(append(alike, request.Alikeness()...), '\n')
	}
	alike = fmt.Append(alike, shares)
	if number, known := f.shapes[string(alike)]; known {
		return number
	}
	number := len(f.state.Shapes)
	if number == mostShapes {
		return -1
	}
	f.shapes[string(alike)] = number
	var pods []forecast.Pod
	for _, request := range requests {
		on := forecast.NewNodes(len(f.pool.nodes))
		for _, node := range f.pool.shapeOf(request).places {
			on.Add(node)
		}
		pods = append(pods, forecast.Pod{Needs: amountsOf(request.Resources, request.Demand.Whole), On: on})
	}
	f.state.Shapes = append(f.state.Shapes, forecast.Shape{Pods: pods, Shares: shares})
	return number
}

// sharesOf is what pods that start together take of quotas. They take nothing of a quota for one type if they accept another.
func (f *forecaster) sharesOf(requests []*fit.Request) []forecast.Share {
	taken := make([]int64, len(f.quotas))
	for _, request := range requests {
		at := gpuquota.Place{Pool: f.pool.name}
		if len(request.Types.Accepted) == 1 {
			at.Type = request.Types.Accepted[0]
		}
		f.take(taken, request.Pod, at)
	}
	return sharesIn(taken)
}

// take adds a pod's use of each quota at a place.
func (f *forecaster) take(taken []int64, pod *corev1.Pod, at gpuquota.Place) {
	if len(f.quotas) == 0 {
		return
	}
	gpus := gpuquota.WholeGPUs(pod)
	for i := range f.quotas {
		if f.quotas[i].Counts(pod.Namespace, at) {
			taken[i] += gpus
		}
	}
}

func sharesIn(taken []int64) (out []forecast.Share) {
	for quota, amount := range taken {
		if amount > 0 {
			out = append(out, forecast.Share{Quota: quota, Amount: amount})
		}
	}
	return out
}

func amountsOf(resources corev1.ResourceList, gpus int64) forecast.Amounts {
	return forecast.Amounts{
		forecast.GPUs: gpus, forecast.MilliCPU: resources.Cpu().MilliValue(), forecast.Memory: resources.Memory().Value(), forecast.Pods: 1,
	}
}

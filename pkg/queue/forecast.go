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
	"g8s.host/gpu-scheduler/pkg/workload"
)

// maxForecast is how many pods of a queue take part in a forecast. Pods behind them have none.
const maxForecast = 5000

// maxShapes is how many kinds of jobs take part, since each is tried whenever a job ends. The first job beyond that, and all jobs behind it, have no
// forecast.
const maxShapes = 30

// StartEstimates is between which moments jobs start.
type StartEstimates map[key]startEstimate

type startEstimate struct{ earliest, latest time.Time }

// ApplyEstimates adds estimates to the entries that they are for and that do not start now. The estimates may be somewhat older than the queue.
func (q *Queue) ApplyEstimates(of StartEstimates, now time.Time) {
	for i := range q.Entries {
		entry := &q.Entries[i]
		found, ok := of[entry.jobKey()]
		if !ok || !entry.hasUncertainStart(now) || found.latest.Before(now) {
			continue
		}
		earliest, latest := laterOf(found.earliest, now), found.latest
		if entry.ETA != nil && entry.ETA.Before(latest) { // if all before it use all of their time
			latest = *entry.ETA
		}
		if latest.Before(earliest) {
			earliest = latest
		}
		entry.Earliest, entry.Latest, entry.Confidence = &earliest, &latest, forecast.Confidence
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (e *Entry) jobKey() key { return key{namespace: e.Namespace, kind: e.Kind, name: e.Name} }

// EstimateStarts estimates between which moments entries start, from how long similar jobs have run. It covers only jobs that wait for room, and only if
// enough history is known. objects are those that the queue was built from.
//
// It counts whole GPUs, CPU, memory and pods, and the maxima of GPUQuotas. There are no estimates for jobs that request a part of a GPU, for a pool
// with reserved nodes, or for gangs: smaller jobs that arrive later get past a gang, and are not known yet (docs/benchmarks/queueing.md has how far
// off it would be).
func (q *Queue) EstimateStarts(objects *snapshot.Snapshot, past *survival.History, now time.Time) StartEstimates {
	out := StartEstimates{}
	if past == nil || len(objects.Nodes) == 0 {
		return out
	}
	known, lines := collectJobUsers(objects), q.uncertainEntries(now)
	for _, entries := range lines {
		f := &forecaster{
			entries: entries, pool: q.pools[entries[0].Pool], known: known, past: past, now: now, limits: jobDeadlines(objects.Jobs),
			quotas: poolQuotas(objects.GPUQuotas, entries[0].Pool), shapes: map[string]int{}, holding: map[key]bool{}, skipped: map[*Entry]bool{}, budget: forecastBudget(len(lines)),
		}
		if !f.hasReservation(objects.GPUReservations) {
			f.loadRunning(objects.Pods)
			f.forecastStarts(out)
		}
	}
	return out
}

// forecastBudget is the cost limit of each forecast of that many queues, of which there are two: all of them share one budget.
func forecastBudget(lines int) int { return forecast.Budget / (2 * lines) }

// uncertainEntries returns the entries of each pool in which a forecast may improve some estimates.
func (q *Queue) uncertainEntries(now time.Time) (out [][]Entry) {
	for start := 0; start < len(q.Entries); {
		end := start
		for end < len(q.Entries) && q.Entries[end].Pool == q.Entries[start].Pool {
			end++
		}
		entries := q.Entries[start:end]
		if q.pools[entries[0].Pool] != nil && slices.ContainsFunc(entries, func(e Entry) bool { return e.hasUncertainStart(now) }) {
			out = append(out, entries)
		}
		start = end
	}
	return out
}

// hasUncertainStart reports whether a forecast may improve the estimate of an entry: there is no room for it now.
func (e *Entry) hasUncertainStart(now time.Time) bool {
	return e.waitsForRoom() && (e.ETA == nil || e.ETA.After(now))
}

// waitsForRoom reports whether an entry waits only for room, on nodes and in quotas, and not for an eviction.
func (e *Entry) waitsForRoom() bool {
	counted := e.Cause == "" || e.demand.overQuota
	return e.Position > 0 && !e.Never && !e.Reclaims && counted && !e.demand.confined && len(e.demand.requests) > 0
}

// jobUsers are the users of jobs, and the start times of jobs with pods that have already succeeded: their other pods come after those, as tasks of an
// array do.
type jobUsers struct {
	users  map[key]string
	begins map[types.UID]time.Time
}

func collectJobUsers(objects *snapshot.Snapshot) jobUsers {
	out := jobUsers{users: map[key]string{}, begins: map[types.UID]time.Time{}}
	for i := range objects.Jobs {
		job := &objects.Jobs[i]
		out.users[key{namespace: job.Namespace, kind: job.Labels[names.LabelJobType], name: job.Labels[names.LabelJob]}] = job.Annotations[names.AnnotationUser]
		if job.Status.StartTime != nil && job.Status.Succeeded > 0 { // its pods take turns
			out.begins[job.UID] = job.Status.StartTime.Time
		}
	}
	for i := range objects.Deployments {
		d := &objects.Deployments[i]
		out.users[key{namespace: d.Namespace, kind: d.Labels[names.LabelJobType], name: d.Labels[names.LabelJob]}] = d.Annotations[names.AnnotationUser]
	}
	return out
}

// forecaster translates the queue of a pool for a forecast.
type forecaster struct {
	entries []Entry
	pool    *pool
	known   jobUsers
	past    *survival.History
	now     time.Time
	limits  map[types.UID]time.Time
	quotas  []gpuquota.Quota
	// state is the pool, and places are the entries by the position of their first pod in the queue.
	state  forecast.State
	places map[int]*Entry
	shapes map[string]int
	// holding are the jobs with running pods in the pool.
	holding map[key]bool
	// skipped are entries that do not start although there is room for them.
	skipped map[*Entry]bool
	// budget is what a forecast may cost.
	budget int
}

// hasReservation reports whether a reservation keeps nodes of the pool, or will.
func (f *forecaster) hasReservation(objects []names.GPUReservation) bool {
	for i := range objects {
		window := reservation.WindowOf(&objects[i])
		if window.To.After(f.now) && slices.ContainsFunc(f.pool.nodes, func(node corev1.Node) bool { return window.KeepsNode(&node) }) {
			return true
		}
	}
	return false
}

// forecastStarts computes when entries start. If there is room for an entry at once and the scheduler has refused it nevertheless, it waits for something that
// is not counted here. It is skipped in the second run, as it takes no room.
func (f *forecaster) forecastStarts(out StartEstimates) {
	f.buildWaiting()
	starts := forecast.StartIntervals(&f.state, len(f.state.Waiting)-1, f.budget)
	for place, entry := range f.places {
		if at := starts[place]; at.Known && at.Latest == 0 && entry.Message != "" && entry.hasUncertainStart(f.now) {
			f.skipped[entry] = true
		}
	}
	if len(f.skipped) > 0 {
		f.buildWaiting()
		starts = forecast.StartIntervals(&f.state, len(f.state.Waiting)-1, f.budget)
	}
	for place, entry := range f.places {
		overtaken := entry.demand.startsTogether() && entry.Pods > 1
		if at := starts[place]; at.Known && !overtaken && !f.holdsAsService(entry) {
			out[entry.jobKey()] = startEstimate{f.now.Add(at.Earliest).Truncate(time.Second), f.now.Add(at.Latest).Truncate(time.Second)}
		}
	}
}

// holdsAsService reports whether running pods of the entry's own service hold GPUs of the pool: they do not end so that its next replica can start, however
// long services have lasted.
func (f *forecaster) holdsAsService(entry *Entry) bool {
	return workload.Kind(entry.Kind).IsService() && f.holding[podJobKey(entry.demand.requests[0].Pod)]
}

// buildWaiting collects the entries that wait for room, in order. Pods that start one by one are separate items.
func (f *forecaster) buildWaiting() {
	f.state.Waiting, f.places = f.state.Waiting[:0], map[int]*Entry{}
	for i := range f.entries {
		entry := &f.entries[i]
		if !entry.waitsForRoom() || f.skipped[entry] || slices.ContainsFunc(entry.demand.requests, asksForGPUParts) {
			continue
		}
		together := [][]*fit.Request{entry.demand.requests}
		if !entry.demand.startsTogether() {
			together = slices.Collect(slices.Chunk(entry.demand.requests, 1))
		}
		if len(f.state.Waiting)+len(together) > maxForecast {
			return
		}
		shapes := make([]int, len(together))
		for i, requests := range together {
			if shapes[i] = f.shapeIndex(requests); shapes[i] < 0 {
				return
			}
		}
		f.places[len(f.state.Waiting)] = entry
		runs := f.past.RemainingTime(f.survivalJob(podJobKey(entry.demand.requests[0].Pod), entry.GPUs), 0, f.runtimeLimit(entry))
		for _, shape := range shapes {
			f.state.Waiting = append(f.state.Waiting, forecast.Waiting{Shape: shape, Runs: runs})
		}
	}
}

// asksForGPUParts reports whether a pod requests parts of GPUs, which are not counted.
func asksForGPUParts(r *fit.Request) bool { return r.Demand.Shared > 0 || r.Demand.MIG > 0 }

func (f *forecaster) survivalJob(of key, gpus int64) survival.Job {
	return survival.Job{Namespace: of.namespace, User: f.known.users[of], Pool: f.pool.name, GPUs: gpus}
}

// runtimeLimit is how long an entry may run once it has started, 0 without a limit. A Job also counts its time in the queue.
func (f *forecaster) runtimeLimit(entry *Entry) time.Duration {
	var limit time.Duration
	if seconds := entry.demand.requests[0].Pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		limit = time.Duration(*seconds) * time.Second
	}
	if end, ok := f.limits[entry.demand.owner]; ok && (limit == 0 || end.Sub(f.now) < limit) {
		limit = max(end.Sub(f.now), time.Second)
	}
	return limit
}

// shapeIndex is the number of a kind of request, -1 if there are too many kinds.
func (f *forecaster) shapeIndex(requests []*fit.Request) int {
	alike := make([]byte, 0, 1024)
	shares := f.quotaUse(requests)
	for _, request := range requests {
		alike = append(append(alike, request.EquivalenceKey()...), '\n')
	}
	alike = fmt.Append(alike, shares)
	if number, known := f.shapes[string(alike)]; known {
		return number
	}
	number := len(f.state.Shapes)
	if number == maxShapes {
		return -1
	}
	f.shapes[string(alike)] = number
	var pods []forecast.Pod
	for _, request := range requests {
		on := forecast.NewNodes(len(f.pool.nodes))
		for _, node := range f.pool.shapeOf(request).places {
			on.Add(node)
		}
		pods = append(pods, forecast.Pod{Needs: toAmounts(request.Resources, request.Demand.Whole), On: on})
	}
	f.state.Shapes = append(f.state.Shapes, forecast.Shape{Pods: pods, Shares: shares})
	return number
}

// newQuotaShares is what pods that start together take of quotas. They take nothing of a quota for one type if they accept another.
func (f *forecaster) quotaUse(requests []*fit.Request) []forecast.Share {
	taken := make([]int64, len(f.quotas))
	for _, request := range requests {
		at := gpuquota.Place{Pool: f.pool.name}
		if len(request.Types.Accepted) == 1 {
			at.Type = request.Types.Accepted[0]
		}
		f.addQuotaUse(taken, request.Pod, at)
	}
	return toShares(taken)
}

// addQuotaUse adds a pod's use of each quota at a place.
func (f *forecaster) addQuotaUse(taken []int64, pod *corev1.Pod, at gpuquota.Place) {
	if len(f.quotas) == 0 {
		return
	}
	gpus := gpuquota.WholeGPUs(pod)
	for i := range f.quotas {
		if f.quotas[i].CountsNamespace(pod.Namespace, at) {
			taken[i] += gpus
		}
	}
}

func toShares(taken []int64) (out []forecast.Share) {
	for quota, amount := range taken {
		if amount > 0 {
			out = append(out, forecast.Share{Quota: quota, Amount: amount})
		}
	}
	return out
}

func toAmounts(resources corev1.ResourceList, gpus int64) forecast.Amounts {
	return forecast.Amounts{
		forecast.GPUs: gpus, forecast.MilliCPU: resources.Cpu().MilliValue(), forecast.Memory: resources.Memory().Value(), forecast.Pods: 1,
	}
}

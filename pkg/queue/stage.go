package queue

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/forecast"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// runningJob are the running pods of a job. They are assumed to end together, as those of a gang do.
type runningJob struct {
	holds []forecast.Hold
	gpus  int64
	began time.Time
	// end is when the limit of the job ends, the zero time without one.
	end time.Time
	// taken is what they have of each quota.
	taken []int64
}

// loadRunning collects what is currently free on the nodes of the pool, and what is released when.
func (f *forecaster) loadRunning(pods []corev1.Pod) {
	f.state.Free = make([]forecast.Amounts, len(f.pool.nodes))
	inUse := make([]int64, len(f.quotas))
	on, crews := fit.ByNode(pods), map[key]*runningJob{}
	shared := make([][]*corev1.Pod, len(f.pool.nodes))
	machines := make([]*fit.Node, len(f.pool.nodes))
	for i := range f.pool.nodes {
		name := f.pool.nodes[i].Name
		machines[i] = fit.NewNode(&f.pool.nodes[i], on[name], f.pool.topologies)
		f.state.Free[i] = freeAmounts(machines[i])
		for _, pod := range on[name] {
			at := gpuquota.PlaceOf(pod, &f.pool.nodes[i])
			f.addQuotaUse(inUse, pod, at)
			request, err := gpu.RequestOf(pod)
			if gpu.BelongsToNode(pod) {
				continue // it does not end
			}
			if err == nil && (request.Shared > 0 || request.MIG > 0) {
				shared[i] = append(shared[i], pod)
				continue
			}
			its := f.addToRunningJob(crews, pod, request.Whole)
			its.addHold(i, machines[i], pod)
			f.addQuotaUse(its.taken, pod, at)
		}
	}
	order := make([]key, 0, len(crews))
	for of := range crews {
		order, f.holding[of] = append(order, of), true
	}
	slices.SortFunc(order, key.compareTo)
	for _, of := range order {
		f.state.Running = append(f.state.Running, forecast.Running{
			Holds: crews[of].holds, Shares: toShares(crews[of].taken), Ends: []survival.Distribution{f.remainingTime(of, crews[of])},
		})
	}
	for i := range f.quotas {
		f.state.Quotas = append(f.state.Quotas, f.quotas[i].Max-inUse[i])
	}
	for i, sharing := range shared {
		f.addSharedHold(i, machines[i], sharing)
	}
}

func (k key) compareTo(other key) int {
	return slices.Compare([]string{k.namespace, k.kind, k.name}, []string{other.namespace, other.kind, other.name})
}

// addToRunningJob adds a pod to the others of its job.
func (f *forecaster) addToRunningJob(crews map[key]*runningJob, pod *corev1.Pod, gpus int64) *runningJob {
	of := podJobKey(pod)
	if crews[of] == nil {
		crews[of] = &runningJob{began: f.now, taken: make([]int64, len(f.quotas))}
	}
	its := crews[of]
	its.gpus += gpus
	start := f.now
	if pod.Status.StartTime != nil {
		start = pod.Status.StartTime.Time
	}
	turns, isArray := f.known.begins[controllerUID(pod)]
	if isArray {
		start = turns
	}
	if start.Before(its.began) {
		its.began = start
	}
	if r, ok := podRelease(pod, "", start, f.limits); ok && (!isArray || !r.replaced) && (its.end.IsZero() || r.at.Before(its.end)) {
		its.end = r.at
	}
	return its
}

func (f *forecaster) remainingTime(of key, its *runningJob) survival.Distribution {
	var limit time.Duration
	if !its.end.IsZero() {
		limit = max(its.end.Sub(its.began), time.Second)
	}
	return f.past.RemainingTime(f.survivalJob(of, its.gpus), f.now.Sub(its.began), limit)
}

// addHold records what a pod releases on a node, without unhealthy GPUs.
func (c *runningJob) addHold(number int, node *fit.Node, pod *corev1.Pod) {
	c.holds = append(c.holds, releasedHold(number, node, []*corev1.Pod{pod}))
}

// addSharedHold makes pods that share GPUs of a node release them together, when the last of them ends. It does not simulate which GPU becomes exclusive in
// between.
func (f *forecaster) addSharedHold(number int, node *fit.Node, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	crews := map[key]*runningJob{}
	out := forecast.Running{Holds: []forecast.Hold{releasedHold(number, node, pods)}}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	for _, pod := range pods {
		its := f.addToRunningJob(crews, pod, 1)
		out.Ends = append(out.Ends, f.remainingTime(podJobKey(pod), its))
	}
	f.state.Running = append(f.state.Running, out)
}

// releasedHold is what some pods leave on a node.
func releasedHold(number int, node *fit.Node, pods []*corev1.Pod) forecast.Hold {
	before := freeAmounts(node)
	undo := make([]func(), len(pods))
	for i, pod := range pods {
		undo[i] = node.RemovePod(pod)
	}
	after := freeAmounts(node)
	for _, back := range slices.Backward(undo) {
		back()
	}
	for i := range after {
		after[i] -= before[i]
	}
	return forecast.Hold{Node: number, Amounts: after}
}

func freeAmounts(node *fit.Node) forecast.Amounts {
	out := toAmounts(node.Free, node.FreeGPUs())
	out[forecast.Pods] = node.Free.Pods().Value()
	return out
}

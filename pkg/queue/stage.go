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

// crew are the running pods of a job. They are assumed to end together, as those of a gang do.
type crew struct {
	holds []forecast.Hold
	gpus  int64
	began time.Time
	// end is when the limit of the job ends, the zero time without one.
	end time.Time
	// taken is what they have of each quota.
	taken []int64
}

// stage collects what is currently free on the nodes of the pool, and what is released when.
func (f *forecaster) stage(pods []corev1.Pod) {
	f.state.Free = make([]forecast.Amounts, len(f.pool.nodes))
	inUse := make([]int64, len(f.quotas))
	on, crews := fit.ByNode(pods), map[key]*crew{}
	shared := make([][]*corev1.Pod, len(f.pool.nodes))
	machines := make([]*fit.Node, len(f.pool.nodes))
	for i := range f.pool.nodes {
		name := f.pool.nodes[i].Name
		machines[i] = fit.NewNode(&f.pool.nodes[i], on[name], f.pool.topologies)
		f.state.Free[i] = freeOf(machines[i])
		for _, pod := range on[name] {
			at := gpuquota.PlaceOf(pod, &f.pool.nodes[i])
			f.take(inUse, pod, at)
			request, err := gpu.RequestOf(pod)
			if gpu.BelongsToNode(pod) {
				continue // it does not end
			}
			if err == nil && (request.Shared > 0 || request.MIG > 0) {
				shared[i] = append(shared[i], pod)
				continue
			}
			its := f.enlist(crews, pod, request.Whole)
			its.hold(i, machines[i], pod)
			f.take(its.taken, pod, at)
		}
	}
	order := make([]key, 0, len(crews))
	for of := range crews {
		order = append(order, of)
	}
	slices.SortFunc(order, key.compare)
	for _, of := range order {
		f.state.Running = append(f.state.Running, forecast.Running{
			Holds: crews[of].holds, Shares: sharesIn(crews[of].taken), Ends: []survival.Distribution{f.remaining(of, crews[of])},
		})
	}
	for i := range f.quotas {
		f.state.Quotas = append(f.state.Quotas, f.quotas[i].Max-inUse[i])
	}
	for i, sharing := range shared {
		f.share(i, machines[i], sharing)
	}
}

func (k key) compare(other key) int {
	return slices.Compare([]string{k.namespace, k.kind, k.name}, []string{other.namespace, other.kind, other.name})
}

// enlist adds a pod to the others of its job.
func (f *forecaster) enlist(crews map[key]*crew, pod *corev1.Pod, gpus int64) *crew {
	of := keyOf(pod)
	if crews[of] == nil {
		crews[of] = &crew{began: f.now, taken: make([]int64, len(f.quotas))}
	}
	its := crews[of]
	its.gpus += gpus
	start := f.now
	if pod.Status.StartTime != nil {
		start = pod.Status.StartTime.Time
	}
	turns, isArray := f.known.begins[ownerOf(pod)]
	if isArray {
		start = turns
	}
	if start.Before(its.began) {
		its.began = start
	}
	if r, ok := releaseOf(pod, "", start, f.limits); ok && (!isArray || !r.replaced) && (its.end.IsZero() || r.at.Before(its.end)) {
		its.end = r.at
	}
	return its
}

func (f *forecaster) remaining(of key, its *crew) survival.Distribution {
	var limit time.Duration
	if !its.end.IsZero() {
		limit = max(its.end.Sub(its.began), time.Second)
	}
	return f.past.Remaining(f.job(of, its.gpus), f.now.Sub(its.began), limit)
}

// hold records what a pod releases on a node, without unhealthy GPUs.
func (c *crew) hold(number int, node *fit.Node, pod *corev1.Pod) {
	c.holds = append(c.holds, givenBack(number, node, []*corev1.Pod{pod}))
}

// share makes pods that share GPUs of a node release them together, when the last of them ends. It does not simulate which GPU becomes exclusive in
// between.
func (f *forecaster) share(number int, node *fit.Node, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	crews := map[key]*crew{}
	out := forecast.Running{Holds: []forecast.Hold{givenBack(number, node, pods)}}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	for _, pod := range pods {
		its := f.enlist(crews, pod, 1)
		out.Ends = append(out.Ends, f.remaining(keyOf(pod), its))
	}
	f.state.Running = append(f.state.Running, out)
}

// givenBack is what some pods leave on a node.
func givenBack(number int, node *fit.Node, pods []*corev1.Pod) forecast.Hold {
	before := freeOf(node)
	undo := make([]func(), len(pods))
	for i, pod := range pods {
		undo[i] = node.Remove(pod)
	}
	after := freeOf(node)
	for _, back := range slices.Backward(undo) {
		back()
	}
	for i := range after {
		after[i] -= before[i]
	}
	return forecast.Hold{Node: number, Amounts: after}
}

func freeOf(node *fit.Node) forecast.Amounts {
	out := amountsOf(node.Free, node.FreeGPUs())
	out[forecast.Pods] = node.Free.Pods().Value()
	return out
}

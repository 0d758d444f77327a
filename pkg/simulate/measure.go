package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// measurements counts what happens in a run.
type measurements struct {
	result     Result
	gpus       map[string]gpuCount // by node
	mean       gpuCount            // of a GPU, where the node is not known yet
	asked      int64
	allocated  int64
	collector  trace.Collector
	fragments  *fragments
	timeline   timeline
	delays     []time.Duration
	completion []time.Duration
}

// gpuCount are what a node has.
type gpuCount struct{ count, memoryMiB int64 }

func newMeasurements(cluster Cluster, name string, seed int64, workload []*corev1.Pod) measurements {
	m := measurements{
		fragments: newFragments(cluster.Nodes, slices.Concat(cluster.Pods, workload)),
		result:    Result{Name: name, Seed: seed, Nodes: len(cluster.Nodes)}, gpus: map[string]gpuCount{},
	}
	memory, known := int64(0), int64(0)
	for _, node := range cluster.Nodes {
		has := countHealthyGPUs(node)
		m.gpus[node.Name] = has
		m.collector.Capacity += has.count * gpu.MilliPerGPU
		if has.memoryMiB > 0 {
			memory, known = memory+has.count*has.memoryMiB, known+has.count
		}
	}
	if known > 0 {
		m.mean.memoryMiB = memory / known
	}
	for _, pod := range cluster.Pods {
		m.allocated += podMilliGPUs(pod, m.gpus[pod.Spec.NodeName])
		m.fragments.addPod(pod)
	}
	m.asked = m.allocated
	return m
}

// countHealthyGPUs counts a node's healthy GPUs. Their memory is what shares can hold of the first.
func countHealthyGPUs(node *corev1.Node) gpuCount {
	inventory, _ := gpu.InventoryOf(node) // the count is correct in either case
	var c gpuCount
	for i := range inventory.GPUs {
		if inventory.GPUs[i].Health == gpu.Healthy {
			c.count++
			if c.memoryMiB == 0 {
				c.memoryMiB = inventory.GPUs[i].ShareableMiB()
			}
		}
	}
	return c
}

// podMilliGPUs is what a pod asks of GPUs, in thousandths of one: shares by their part of a GPU's memory.
func podMilliGPUs(pod *corev1.Pod, card gpuCount) int64 {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return 0 // the scheduler refuses it
	}
	milli := demand.Whole * gpu.MilliPerGPU
	if demand.Shared > 0 && card.memoryMiB > 0 {
		milli += demand.Shared * min(demand.ShareMiB*gpu.MilliPerGPU/card.memoryMiB, gpu.MilliPerGPU)
	}
	return milli
}

// countArrival counts an arrival and returns the number of earlier ones.
func (m *measurements) countArrival(arrival *Arrival) int {
	m.asked += podMilliGPUs(arrival.Pod, m.mean)
	m.result.Arrivals++
	return m.result.Arrivals - 1
}

// countPlacement counts an arrival that got a node.
func (m *measurements) countPlacement(arrival *entry, bound *corev1.Pod, now time.Duration) {
	m.allocated += podMilliGPUs(bound, m.gpus[bound.Spec.NodeName])
	m.fragments.addPod(bound)
	m.delays = append(m.delays, now-arrival.At)
	if arrival.Lifetime > 0 {
		m.completion = append(m.completion, now-arrival.At+arrival.Lifetime)
	}
	m.result.Decisions = append(m.result.Decisions, Decision{
		Pod: podKey(bound).String(), Node: bound.Spec.NodeName, Arrival: arrival.order,
		Devices: bound.Annotations[names.AnnotationGPUDevices], At: now.Seconds(),
	})
}

func (m *measurements) countEnd(pod *corev1.Pod) {
	m.allocated -= podMilliGPUs(pod, m.gpus[pod.Spec.NodeName])
	m.fragments.removePod(pod)
}

// sampleAfterArrival records the state after an arrival.
func (m *measurements) sampleAfterArrival(now time.Duration) {
	m.collector.Add(m.asked, m.allocated)
	m.recordSample(now)
}

// recordSample notes how things are.
func (m *measurements) recordSample(now time.Duration) {
	if m.collector.Capacity == 0 {
		return
	}
	of := 100 / float64(m.collector.Capacity)
	m.timeline.samples = append(m.timeline.samples, sample{
		at: now, asked: of * float64(m.asked), allocated: of * float64(m.allocated), fragmented: of * m.fragments.total,
	})
}

// countWithdrawal counts an arrival that left before it had a node.
func (m *measurements) countWithdrawal(arrival *Arrival) {
	m.asked -= podMilliGPUs(arrival.Pod, m.mean)
	m.result.Withdrawn++
}

// recordEviction records an eviction for another pod.
func (m *measurements) recordEviction(victim, preemptor *corev1.Pod, now time.Duration) {
	m.result.Evictions = append(m.result.Evictions, Eviction{
		Pod: podKey(victim).String(), For: podKey(preemptor).String(), At: now.Seconds(),
	})
}

// buildResult returns what was measured. Some pods still wait.
func (m *measurements) buildResult(left []*entry) *Result {
	r := &m.result
	r.Placed = r.Arrivals - r.Withdrawn
	for _, pod := range left {
		if pod.order >= 0 { // evicted pods of the cluster are no arrivals
			r.Placed--
		}
	}
	r.GPUs = milliToGPUs(m.collector.Capacity)
	r.AskedGPUs, r.AllocatedGPUs = milliToGPUs(m.asked), milliToGPUs(m.allocated)
	r.UnallocatedGPUs = r.GPUs - r.AllocatedGPUs
	if r.GPUs > 0 {
		r.AllocatedPercent = 100 * r.AllocatedGPUs / r.GPUs
		r.ArrivedPercent = 100 * r.AskedGPUs / r.GPUs
		r.FragmentedPercent = max(0, 100*m.fragments.total/float64(m.collector.Capacity))
	}
	if m.timeline.timed = len(m.completion) > 0; m.timeline.timed {
		m.timeline.delays = sortDurations(m.delays)
		r.Delay, r.Completion = summarizeDurations(m.delays), summarizeDurations(m.completion)
	}
	r.series, r.timeline = m.collector.Means(), m.timeline
	r.Refused = m.summarizeRefusals(left)
	return r
}

func milliToGPUs(milli int64) float64 { return float64(milli) / gpu.MilliPerGPU }

// summarizeRefusals counts the pods without a node by their request and their first reason, those with the most pods first.
func (m *measurements) summarizeRefusals(left []*entry) []Refusal {
	var all []Refusal
	type kind struct{ asks, reason string }
	at := map[kind]int{}
	ofGangs := reasonsOfGangs(left)
	for _, pod := range left {
		reasons := pod.reasons
		if gang := podGang(pod.Pod); gang.Name != "" {
			reasons = ofGangs[gang]
		}
		group := kind{asks: describeRequest(pod.Pod)}
		if len(reasons) > 0 {
			group.reason = reasons[0]
		}
		i, ok := at[group]
		if !ok {
			i = len(all)
			at[group] = i
			all = append(all, Refusal{Asks: group.asks, Reasons: reasons})
		}
		all[i].Pods++
		all[i].GPUs += milliToGPUs(podMilliGPUs(pod.Pod, m.mean))
	}
	slices.SortStableFunc(all, func(a, b Refusal) int { return b.Pods - a.Pods })
	return all
}

// summarizeDurations sums up durations.
func summarizeDurations(all []time.Duration) *Distribution {
	slices.Sort(all)
	sum := 0.0
	for _, d := range all {
		sum += d.Seconds()
	}
	at := func(percent int) float64 { return all[(len(all)-1)*percent/100].Seconds() }
	return &Distribution{Mean: sum / float64(len(all)), P50: at(50), P99: at(99), Max: at(100)}
}

// reasonsOfGangs returns why each gang waits: the reasons of its last member, which was tried when all had arrived.
func reasonsOfGangs(left []*entry) map[types.NamespacedName][]string {
	out := map[types.NamespacedName][]string{}
	for _, pod := range left {
		if gang := podGang(pod.Pod); gang.Name != "" && len(pod.reasons) > 0 {
			out[gang] = pod.reasons
		}
	}
	return out
}

// podGang names the gang of a pod; the name is "" for a pod that is in none.
func podGang(pod *corev1.Pod) types.NamespacedName {
	name, _ := gang.NamedGroup(pod)
	return name
}

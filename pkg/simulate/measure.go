package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// measure counts what happens in a run.
type measure struct {
	result     Result
	cards      map[string]cards // by node
	mean       cards            // of a GPU, where the node is not known yet
	asked      int64
	allocated  int64
	collector  trace.Collector
	fragments  *fragments
	timeline   timeline
	delays     []time.Duration
	completion []time.Duration
}

// cards are what a node has.
type cards struct{ count, memoryMiB int64 }

func newMeasure(cluster Cluster, name string, seed int64, workload []*corev1.Pod) measure {
	m := measure{
		fragments: newFragments(cluster.Nodes, slices.Concat(cluster.Pods, workload)),
		result:    Result{Name: name, Seed: seed, Nodes: len(cluster.Nodes)}, cards: map[string]cards{},
	}
	memory, known := int64(0), int64(0)
	for _, node := range cluster.Nodes {
		has := cardsOf(node)
		m.cards[node.Name] = has
		m.collector.Capacity += has.count * gpu.MilliPerCard
		if has.memoryMiB > 0 {
			memory, known = memory+has.count*has.memoryMiB, known+has.count
		}
	}
	if known > 0 {
		m.mean.memoryMiB = memory / known
	}
	for _, pod := range cluster.Pods {
		m.allocated += milliOf(pod, m.cards[pod.Spec.NodeName])
		m.fragments.add(pod)
	}
	m.asked = m.allocated
	return m
}

// cardsOf counts a node's healthy GPUs. Their memory is what shares can hold of the first.
func cardsOf(node *corev1.Node) cards {
	inventory, _ := gpu.InventoryOf(node) // the count is correct in either case
	var c cards
	for i := range inventory.Cards {
		if inventory.Cards[i].Health == gpu.Healthy {
			c.count++
			if c.memoryMiB == 0 {
				c.memoryMiB = inventory.Cards[i].ShareableMiB()
			}
		}
	}
	return c
}

// milliOf is what a pod asks of GPUs, in thousandths of one: shares by their part of a GPU's memory.
func milliOf(pod *corev1.Pod, card cards) int64 {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return 0 // the scheduler refuses it
	}
	milli := demand.Whole * gpu.MilliPerCard
	if demand.Shared > 0 && card.memoryMiB > 0 {
		milli += demand.Shared * min(demand.ShareMiB*gpu.MilliPerCard/card.memoryMiB, gpu.MilliPerCard)
	}
	return milli
}

// arrived counts an arrival and returns the number of earlier ones.
func (m *measure) arrived(arrival *Arrival) int {
	m.asked += milliOf(arrival.Pod, m.mean)
	m.result.Arrivals++
	return m.result.Arrivals - 1
}

// placed counts an arrival that got a node.
func (m *measure) placed(arrival *entry, bound *corev1.Pod, now time.Duration) {
	m.allocated += milliOf(bound, m.cards[bound.Spec.NodeName])
	m.fragments.add(bound)
	m.delays = append(m.delays, now-arrival.At)
	if arrival.Lifetime > 0 {
		m.completion = append(m.completion, now-arrival.At+arrival.Lifetime)
	}
	m.result.Decisions = append(m.result.Decisions, Decision{
		Pod: nameOf(bound).String(), Node: bound.Spec.NodeName, Arrival: arrival.order,
		Devices: bound.Annotations[names.AnnotationGPUDevices], At: now.Seconds(),
	})
}

func (m *measure) ended(pod *corev1.Pod) {
	m.allocated -= milliOf(pod, m.cards[pod.Spec.NodeName])
	m.fragments.remove(pod)
}

// sample records the state after an arrival.
func (m *measure) sample(now time.Duration) {
	m.collector.Add(m.asked, m.allocated)
	m.note(now)
}

// note notes how things are.
func (m *measure) note(now time.Duration) {
	if m.collector.Capacity == 0 {
		return
	}
	of := 100 / float64(m.collector.Capacity)
	m.timeline.samples = append(m.timeline.samples, sample{
		at: now, asked: of * float64(m.asked), allocated: of * float64(m.allocated), fragmented: of * m.fragments.total,
	})
}

// withdrawn counts an arrival that left before it had a node.
func (m *measure) withdrawn(arrival *Arrival) {
	m.asked -= milliOf(arrival.Pod, m.mean)
	m.result.Withdrawn++
}

// evicted records an eviction for another pod.
func (m *measure) evicted(victim, preemptor *corev1.Pod, now time.Duration) {
	m.result.Evictions = append(m.result.Evictions, Eviction{
		Pod: nameOf(victim).String(), For: nameOf(preemptor).String(), At: now.Seconds(),
	})
}

// finish returns what was measured. Some pods still wait.
func (m *measure) finish(left []*entry) *Result {
	r := &m.result
	r.Placed = r.Arrivals - r.Withdrawn
	for _, pod := range left {
		if pod.order >= 0 { // evicted pods of the cluster are no arrivals
			r.Placed--
		}
	}
	r.GPUs = gpus(m.collector.Capacity)
	r.AskedGPUs, r.AllocatedGPUs = gpus(m.asked), gpus(m.allocated)
	r.UnallocatedGPUs = r.GPUs - r.AllocatedGPUs
	if r.GPUs > 0 {
		r.AllocatedPercent = 100 * r.AllocatedGPUs / r.GPUs
		r.ArrivedPercent = 100 * r.AskedGPUs / r.GPUs
		r.FragmentedPercent = max(0, 100*m.fragments.total/float64(m.collector.Capacity))
	}
	if m.timeline.timed = len(m.completion) > 0; m.timeline.timed {
		m.timeline.delays = sorted(m.delays)
		r.Delay, r.Completion = distributionOf(m.delays), distributionOf(m.completion)
	}
	r.series, r.timeline = m.collector.Series(), m.timeline
	r.Refused = m.refused(left)
	return r
}

func gpus(milli int64) float64 { return float64(milli) / gpu.MilliPerCard }

// refused counts the pods without a node by their request and their first reason, those with the most pods first.
func (m *measure) refused(left []*entry) []Refusal {
	var all []Refusal
	type kind struct{ asks, reason string }
	at := map[kind]int{}
	ofGangs := reasonsOfGangs(left)
	for _, pod := range left {
		reasons := pod.reasons
		if gang := gangOf(pod.Pod); gang.Name != "" {
			reasons = ofGangs[gang]
		}
		group := kind{asks: describe(pod.Pod)}
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
		all[i].GPUs += gpus(milliOf(pod.Pod, m.mean))
	}
	slices.SortStableFunc(all, func(a, b Refusal) int { return b.Pods - a.Pods })
	return all
}

// distributionOf sums up durations.
func distributionOf(all []time.Duration) *Distribution {
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
		if gang := gangOf(pod.Pod); gang.Name != "" && len(pod.reasons) > 0 {
			out[gang] = pod.reasons
		}
	}
	return out
}

// gangOf names the gang of a pod; the name is "" for a pod that is in none.
func gangOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[names.LabelPodGroup]}
}

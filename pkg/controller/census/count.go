// Package census exports cluster metrics to Prometheus: the GPUs of each pool and the usable sets of free ones, pending pods by cause, partially
// bound gangs, and the machines of spot pools. [Count] is pure; the [Collector] reads the controllers' cache on demand.
//
// No label has values that users choose: pods that wait for a pool without nodes are counted together. Values chosen by those who label nodes are
// bounded.
package census

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"g8s.host/gpu-scheduler/pkg/amounts"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/bounded"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

const (
	// mostPools is how many pools and SpotPools have their own label, the largest first; mostTypes is the same for GPU types. The others are counted
	// together.
	mostPools = 200
	mostTypes = 20
	// mostGPUs bounds the GPUs counted for one pod, so that sums cannot overflow.
	mostGPUs = 1 << 20
	// nowhere is the label of pools without nodes.
	nowhere = "(none)"
)

// setSizes are the GPU set sizes that pods request, as in the status of a GPUPool.
var setSizes = []int64{8, 4, 2, 1}

// Facts are the counted objects.
type Facts struct {
	Nodes []corev1.Node
	// Pods are all pods, bound and pending.
	Pods      []corev1.Pod
	SpotPools []g8s.SpotPool
}

// Numbers are the counts of a cluster.
type Numbers struct {
	Pools   map[string]*Pool
	Pending map[Waiting]*Pending
	Gangs   Gangs
	Spot    map[string]Spot
	// Foreign counts pods with GPUs that other schedulers placed on our nodes. Overpromised counts, by pool, the GPUs that nodes have promised beyond
	// their capacity.
	Foreign      int64
	Overpromised map[string]int64
}

// Pool is what the nodes of one pool have together.
type Pool struct {
	// GPUs are by type.
	GPUs map[string]inventory.GPUs
	// FreeSets counts the pods of a number of GPUs that could start, one node at a time. Sets counts those that could start if nothing ran.
	FreeSets, Sets map[int64]int64
	// CPU and Memory are the totals of its nodes and the requests of pods.
	CPU, Memory inventory.Capacity
}

// Waiting is the key of pending pods: their pool and the cause.
type Waiting struct {
	Pool  string
	Cause reason.Cause
}

// Pending are the pods that wait for a pool for one cause.
type Pending struct {
	Pods, GPUs int64
	// Oldest is the age of the oldest pod.
	Oldest time.Duration
}

// Gangs counts the gangs with unbound members.
type Gangs struct {
	// Waiting gangs have no bound member. PartiallyBound gangs have bound and unbound members.
	Waiting, PartiallyBound int64
	// WaitingOldest and PartiallyBoundOldest are the ages of the oldest unbound member of any such gang.
	WaitingOldest, PartiallyBoundOldest time.Duration
}

// Spot is one SpotPool.
type Spot struct {
	Minimum, Size, Joined int64
	// NoCapacity means that no type can be bought in any zone, CloudSilent that the cloud does not respond properly, and NotJoining that bought
	// machines do not become nodes.
	NoCapacity, CloudSilent, NotJoining bool
}

// Count counts the facts. Pods of other schedulers are not pending for ours.
func Count(facts Facts, now time.Time) Numbers {
	out := Numbers{Pools: map[string]*Pool{}, Pending: map[Waiting]*Pending{}, Spot: map[string]Spot{}, Overpromised: map[string]int64{}}
	bound := make([]corev1.Pod, 0, len(facts.Pods))
	var waiting []*corev1.Pod
	for i := range facts.Pods {
		switch pod := &facts.Pods[i]; {
		case pod.Spec.NodeName != "":
			bound = append(bound, *pod)
		case isPending(pod):
			waiting = append(waiting, pod)
		}
	}
	cluster := inventory.Build(&snapshot.Snapshot{Nodes: facts.Nodes, Pods: bound})
	called, types := poolLabels(cluster.Pools), typeLabels(cluster.Nodes)
	for i := range cluster.Nodes {
		if node := &cluster.Nodes[i]; called[node.Pool] != "" {
			out.addNode(called[node.Pool], types[node.GPUType], node)
		}
	}
	for _, pod := range waiting {
		out.addPending(pod, cmp.Or(called[gpu.PodPool(pod)], nowhere), now)
	}
	out.Gangs = gangsOf(bound, waiting, now)
	out.addOverpromised(facts.Nodes, bound, called)
	out.addSpot(facts.SpotPools)
	return out
}

// addOverpromised counts pods placed by other schedulers, and GPUs promised twice.
func (n *Numbers) addOverpromised(nodes []corev1.Node, bound []corev1.Pod, called map[string]string) {
	on := fit.ByNode(bound)
	for i := range nodes {
		node := &nodes[i]
		for _, pod := range on[node.Name] {
			if gpu.PlacedByOther(node, pod) {
				n.Foreign++
			}
		}
		if pool := called[gpu.PoolOf(node)]; pool != "" {
			n.Overpromised[pool] += min(gpu.MostPromisedOn(node, on[node.Name]).Excess(), mostGPUs)
		}
	}
}

// isPending reports whether a pod waits for our scheduler.
func isPending(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && g8s.IsOurScheduler(pod.Spec.SchedulerName)
}

// poolLabels returns the metric label of each pool with GPUs.
func poolLabels(pools []inventory.Pool) map[string]string {
	sizes := map[string]int64{}
	for i := range pools {
		if p := &pools[i]; p.GPUs.Allocatable > 0 || p.SharedGPUs != nil || len(p.Types) > 0 {
			sizes[p.Name] = p.GPUs.Allocatable
		}
	}
	return bounded.Names(sizes, mostPools)
}

// typeLabels returns the metric label of each GPU type.
func typeLabels(nodes []inventory.Node) map[string]string {
	sizes := map[string]int64{}
	for i := range nodes {
		sizes[nodes[i].GPUType] = amounts.Add(sizes[nodes[i].GPUType], nodes[i].GPUs.Allocatable)
	}
	return bounded.Names(sizes, mostTypes)
}

// addSpot counts SpotPools. Beyond the limit their machines are summed, and a problem of any of them counts.
func (n *Numbers) addSpot(pools []g8s.SpotPool) {
	sizes := map[string]int64{}
	for i := range pools {
		sizes[pools[i].Name] = int64(pools[i].Spec.Minimum)
	}
	called := bounded.Names(sizes, mostPools)
	for i := range pools {
		sum, one := n.Spot[called[pools[i].Name]], spotOf(&pools[i])
		n.Spot[called[pools[i].Name]] = Spot{
			Minimum: sum.Minimum + one.Minimum, Size: sum.Size + one.Size, Joined: sum.Joined + one.Joined,
			NoCapacity: sum.NoCapacity || one.NoCapacity, CloudSilent: sum.CloudSilent || one.CloudSilent,
			NotJoining: sum.NotJoining || one.NotJoining,
		}
	}
}

func (n *Numbers) addNode(name, of string, node *inventory.Node) {
	pool := n.Pools[name]
	if pool == nil {
		pool = &Pool{GPUs: map[string]inventory.GPUs{}, FreeSets: map[int64]int64{}, Sets: map[int64]int64{}}
		n.Pools[name] = pool
	}
	held := node.GPUs
	held.Used = heldOn(node)
	pool.GPUs[of] = pool.GPUs[of].Add(held)
	pool.CPU, pool.Memory = pool.CPU.Add(node.CPU), pool.Memory.Add(node.Memory)
	for _, size := range setSizes {
		pool.FreeSets[size] = amounts.Add(pool.FreeSets[size], node.GPUs.Free/size)
		pool.Sets[size] = amounts.Add(pool.Sets[size], node.GPUs.Allocatable/size)
	}
}

// heldOn returns how many GPUs of a node are in use: whole, shared or sliced, of which the whole-GPU count shows only the first. For a node that
// accepts no pods the free GPUs are unknown, so only whole ones count.
func heldOn(node *inventory.Node) int64 {
	if !node.IsSchedulable() {
		return node.GPUs.Used
	}
	return max(node.GPUs.Used, node.GPUs.Allocatable-node.GPUs.Free-node.GPUs.Unhealthy)
}

func (n *Numbers) addPending(pod *corev1.Pod, pool string, now time.Time) {
	request, err := gpu.RequestOf(pod)
	if err == nil && request.IsZero() {
		return
	}
	key := Waiting{pool, reason.CauseOfUnplaced(pod)}
	if err != nil {
		key.Cause = reason.MalformedRequest
	}
	pending := n.Pending[key]
	if pending == nil {
		pending = &Pending{}
		n.Pending[key] = pending
	}
	pending.Pods++
	pending.GPUs += min(request.Whole, mostGPUs)
	pending.Oldest = max(pending.Oldest, podAge(pod, now))
}

func podAge(pod *corev1.Pod, now time.Time) time.Duration {
	return max(0, now.Sub(pod.CreationTimestamp.Time))
}

func gangsOf(bound []corev1.Pod, waiting []*corev1.Pod, now time.Time) Gangs {
	running := map[string]bool{}
	for i := range bound {
		if pod := &bound[i]; !gpu.HasEnded(pod) {
			running[gang.UnitOf(pod)] = true
		}
	}
	oldest := map[string]time.Duration{}
	for _, pod := range waiting {
		if unit := gang.UnitOf(pod); unit != "" && len(pod.Spec.SchedulingGates) == 0 { // a gate is set on purpose
			oldest[unit] = max(oldest[unit], podAge(pod, now))
		}
	}
	var out Gangs
	for unit := range maps.Keys(oldest) {
		if running[unit] {
			out.PartiallyBound++
			out.PartiallyBoundOldest = max(out.PartiallyBoundOldest, oldest[unit])
			continue
		}
		out.Waiting++
		out.WaitingOldest = max(out.WaitingOldest, oldest[unit])
	}
	return out
}

func spotOf(pool *g8s.SpotPool) Spot {
	return Spot{
		Minimum: int64(pool.Spec.Minimum), Size: int64(pool.Status.Size), Joined: int64(pool.Status.Joined),
		NoCapacity:  meta.IsStatusConditionFalse(pool.Status.Conditions, g8s.ConditionCapacityAvailable),
		CloudSilent: meta.IsStatusConditionFalse(pool.Status.Conditions, g8s.ConditionCloudAnswers),
		NotJoining:  meta.IsStatusConditionFalse(pool.Status.Conditions, g8s.ConditionMachinesJoin),
	}
}

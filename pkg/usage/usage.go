// Package usage computes which pod holds which GPU, and how busy the GPU is. What pods hold comes from Kubernetes and is always known; the load comes
// from Prometheus, and is nil if it was not measured.
package usage

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Usage is the state of all GPUs at one moment. Every list is sorted by name.
type Usage struct {
	GPUs []GPU
	// Slices are the MIG slices that nodes report: a GPU in MIG mode is not counted among the GPUs.
	Slices []GPU
	Nodes  []Node
	Pools  []Pool
	Jobs   []Job
	Total  Total
}

// State is how a GPU is allocated.
type State string

const (
	// Free GPUs are not held.
	Free State = "free"
	// Whole GPUs are held by one pod.
	Whole State = "whole"
	// Shared GPUs are held by pods that each have a part of the memory.
	Shared State = "shared"
	// Unhealthy GPUs are not allocated. A pod may still hold one that it got before.
	Unhealthy State = "unhealthy"
	// Held GPUs are held by a pod whose GPUs are unknown; it may actually hold another free one.
	Held State = "held"
)

// Load is the load of GPUs. JSON keys are a contract.
type Load struct {
	// Utilization is the mean over the measured GPUs, in percent; nil if none was measured.
	Utilization *float64 `json:"utilizationPercent"`
	// MemoryUsedMiB is the sum over the measured GPUs; nil if none was measured.
	MemoryUsedMiB *float64 `json:"memoryUsedMiB"`
	// Measured is the number of measured GPUs.
	Measured int `json:"measuredGPUs"`
}

// GPU is one card. JSON keys are a contract.
type GPU struct {
	Node    string `json:"node"`
	Index   int    `json:"index"`
	UUID    string `json:"uuid,omitempty"`
	Pool    string `json:"pool"`
	GPUType string `json:"gpuType,omitempty"`
	// Profile is the profile of a MIG slice, such as 1g.10gb; Index and Health are then those of its GPU.
	Profile string `json:"profile,omitempty"`
	State   State  `json:"state"`
	// Health describes in one word what is wrong with an unhealthy GPU.
	Health    string `json:"health,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	// SharedMiB is what pods hold of a shared GPU's memory.
	SharedMiB int64    `json:"sharedMiB,omitempty"`
	Holders   []Holder `json:"holders,omitempty"`
	Load
}

// Holder is the holder of a GPU: a job, or a pod that belongs to none.
type Holder struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job,omitempty"`
	Pod       string `json:"pod"`
}

// Count is a number of GPUs and how many of them are allocated.
type Count struct {
	GPUs int64 `json:"gpus"`
	// Used is the number of held GPUs, whole or in part.
	Used int64 `json:"usedGPUs"`
	// Free is the number of GPUs that a new pod could get.
	Free int64 `json:"freeGPUs"`
}

func (c *Count) addCount(other Count) {
	c.GPUs, c.Used, c.Free = c.GPUs+other.GPUs, c.Used+other.Used, c.Free+other.Free
}

// Node is the GPUs of a node. JSON keys are a contract.
type Node struct {
	Name    string `json:"name"`
	Pool    string `json:"pool"`
	GPUType string `json:"gpuType,omitempty"`
	// Schedulable nodes accept new pods; the free GPUs of others cannot be used.
	Schedulable bool `json:"schedulable"`
	Count
	// Cells are the states of the node's GPUs, ordered by index.
	Cells []State `json:"cells"`
	// MIG counts the MIG slices of the node, by profile.
	MIG []inventory.ProfileCount `json:"mig,omitempty"`
	// Sliced are the GPUs in MIG mode that the node reports, with the holders of their slices. They are not counted among the GPUs.
	Sliced []GPU `json:"-"`
	Load

	cpu, memory inventory.Capacity
}

// Pool is the GPUs of a pool. JSON keys are a contract.
type Pool struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	Count
	// MIG counts the MIG slices of its nodes, by profile.
	MIG []inventory.ProfileCount `json:"mig,omitempty"`
	Load
	// CPU and Memory are the capacity of its nodes with GPUs, and what pods request of it; Use is the measured usage, nil if it was not read.
	CPU    inventory.Capacity `json:"cpu"`
	Memory inventory.Capacity `json:"memory"`
	Use    *MachineLoad       `json:"use,omitempty"`

	nodes []string
}

// Job is what a job holds. JSON keys are a contract.
type Job struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind,omitempty"`
	Pool      string `json:"pool"`
	// GPUs is the number of whole GPUs or slots of shared ones that its running pods hold.
	GPUs int64 `json:"gpus"`
	// MIG is the number of MIG slices that they hold, by profile.
	MIG   []inventory.AskedProfile `json:"mig,omitempty"`
	Nodes []string                 `json:"nodes"`
	Load
}

// Total is the sum of all nodes. JSON keys are a contract.
type Total struct {
	Nodes int `json:"nodes"`
	Count
	// MIG counts the MIG slices of all nodes, by profile.
	MIG []inventory.ProfileCount `json:"mig,omitempty"`
	Load
}

// Build computes the usage. Without nodes, which not every user may list, it contains only jobs.
func Build(cluster *snapshot.Snapshot, samples gpumetrics.Samples) Usage {
	nodes, pods := cluster.Nodes, cluster.Pods
	out := Usage{Jobs: buildJobs(pods, samples)}
	onNode := fit.ByNode(pods)
	var topologies gpu.Topologies
	for i := range nodes {
		pods := onNode[nodes[i].Name]
		cards := buildCards(&nodes[i], pods, samples, &topologies)
		judged := fit.NewNode(&nodes[i], pods, &topologies)
		mig := inventory.CountProfiles(judged, pods)
		if len(cards) == 0 && len(mig) == 0 {
			continue
		}
		parts := buildSlices(&nodes[i], pods)
		out.GPUs, out.Slices = append(out.GPUs, cards...), append(out.Slices, parts...)
		node := buildNode(judged, cards)
		node.MIG, node.Sliced = mig, buildSliced(judged, parts)
		out.Nodes = append(out.Nodes, node)
	}
	slices.SortFunc(out.GPUs, compareCards)
	slices.SortFunc(out.Slices, compareCards)
	slices.SortFunc(out.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	out.Pools = buildPools(out.Nodes, out.GPUs)
	for _, node := range out.Nodes {
		out.Total.Nodes++
		out.Total.addCount(node.Count)
		out.Total.MIG = inventory.AddProfiles(out.Total.MIG, node.MIG)
	}
	out.Total.Load = cardsLoad(out.GPUs)
	return out
}

func buildNode(judged *fit.Node, cards []GPU) Node {
	node := judged.Object
	out := Node{
		Name: node.Name, Pool: gpu.PoolOf(node), GPUType: gpu.TypeOf(node), Schedulable: fit.IsOpen(node), Load: cardsLoad(cards),
	}
	out.GPUs = int64(len(cards))
	out.cpu, out.memory = resourceCapacity(judged, corev1.ResourceCPU), resourceCapacity(judged, corev1.ResourceMemory)
	for _, card := range cards {
		out.Cells = append(out.Cells, card.State)
		if len(card.Holders) > 0 || card.State == Held {
			out.Used++
		}
	}
	if out.Schedulable {
		out.Free = freeCards(judged)
	}
	if slot := judged.GPUSlot(); !slot.IsWhole() {
		out.GPUs, out.Used = slot.GPUsForSlots(out.GPUs), slot.GPUsForSlots(out.Used)
		out.Free = min(slot.WholeGPUs(out.Free), out.GPUs-out.Used)
	}
	return out
}

// resourceCapacity returns a node's capacity of a resource, and how much of it pods request.
func resourceCapacity(node *fit.Node, name corev1.ResourceName) inventory.Capacity {
	allocatable := node.Object.Status.Allocatable[name]
	requested := allocatable.DeepCopy()
	requested.Sub(node.Free[name])
	return inventory.Capacity{Allocatable: allocatable.DeepCopy(), Requested: requested}
}

// WithMachines fills in the CPU and memory usage of pools.
func (u *Usage) WithMachines(machines Machines) {
	for i := range u.Pools {
		load := machines.LoadOf(u.Pools[i].nodes)
		u.Pools[i].Use = &load
	}
}

// freeCards returns how many GPUs a new pod could get: whole ones, or, on a node that only shares its GPUs, those of which no part is held.
func freeCards(node *fit.Node) int64 {
	if whole := node.Object.Status.Allocatable[names.ResourceGPU]; whole.IsZero() {
		return int64(node.IdleGPUs())
	}
	return node.FreeGPUs()
}

func buildPools(nodes []Node, cards []GPU) []Pool {
	byName := map[string]*Pool{}
	for _, node := range nodes {
		if byName[node.Pool] == nil {
			byName[node.Pool] = &Pool{Name: node.Pool}
		}
		pool := byName[node.Pool]
		pool.Nodes++
		pool.nodes = append(pool.nodes, node.Name)
		pool.CPU, pool.Memory = pool.CPU.Add(node.cpu), pool.Memory.Add(node.memory)
		byName[node.Pool].addCount(node.Count)
		byName[node.Pool].MIG = inventory.AddProfiles(byName[node.Pool].MIG, node.MIG)
	}
	out := make([]Pool, 0, len(byName))
	for name, pool := range byName {
		pool.Load = cardsLoad(slices.DeleteFunc(slices.Clone(cards), func(card GPU) bool { return card.Pool != name }))
		out = append(out, *pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// cardsLoad returns the mean load of several GPUs.
func cardsLoad(cards []GPU) Load {
	var sum loadSum
	for _, card := range cards {
		sum.addLoad(card.Load)
	}
	return sum.meanLoad()
}

// loadSum adds up the loads of GPUs, some of which are unknown.
type loadSum struct {
	utilization, memory  float64
	measured, withMemory int
}

func (s *loadSum) addLoad(l Load) {
	if l.Utilization != nil {
		s.utilization += *l.Utilization
		s.measured++
	}
	if l.MemoryUsedMiB != nil {
		s.memory += *l.MemoryUsedMiB
		s.withMemory++
	}
}

func (s *loadSum) meanLoad() Load {
	out := Load{Measured: s.measured}
	if s.measured > 0 {
		mean := s.utilization / float64(s.measured)
		out.Utilization = &mean
	}
	if s.withMemory > 0 {
		out.MemoryUsedMiB = &s.memory
	}
	return out
}

// buildJobs sums up what the pods of each job hold.
func buildJobs(pods []corev1.Pod, samples gpumetrics.Samples) []Job {
	type jobKey struct{ namespace, kind, name string }
	jobs, loads := map[jobKey]*Job{}, map[jobKey]*loadSum{}
	for i := range pods {
		pod := &pods[i]
		request, err := gpu.RequestOf(pod)
		if err != nil || request.Whole+request.Shared+request.MIG == 0 || pod.Spec.NodeName == "" || gpu.HasEnded(pod) {
			continue
		}
		w := gang.WorkloadOf(pod)
		key := jobKey{pod.Namespace, w.JobKind(), w.Name}
		if jobs[key] == nil {
			jobs[key] = &Job{Namespace: key.namespace, Name: key.name, Kind: key.kind, Pool: cmp.Or(pod.Labels[names.LabelPool], gpu.PodPool(pod))}
			loads[key] = &loadSum{}
		}
		jobs[key].GPUs = amounts.Add(jobs[key].GPUs, amounts.Add(request.Whole, request.Shared))
		jobs[key].addSlices(inventory.ProfilesOf(pod))
		jobs[key].Nodes = append(jobs[key].Nodes, pod.Spec.NodeName)
		for _, device := range assignedDevices(pod) {
			sample, _ := samples.SampleFor(device.UUID, pod.Spec.NodeName, device.Index)
			loads[key].addLoad(Load{Utilization: sample.Utilization, MemoryUsedMiB: sample.MemoryUsedMiB})
		}
	}
	out := make([]Job, 0, len(jobs))
	for key, job := range jobs {
		slices.Sort(job.Nodes)
		job.Nodes = slices.Compact(job.Nodes)
		job.Load = loads[key].meanLoad()
		out = append(out, *job)
	}
	slices.SortFunc(out, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// assignedDevices returns the GPUs of a pod's annotation, without duplicates.
func assignedDevices(pod *corev1.Pod) []gpu.Device {
	assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return nil // its GPUs are unknown
	}
	var out []gpu.Device
	seen := map[string]bool{}
	for _, devices := range assignment {
		for _, device := range devices {
			if !seen[device.UUID] {
				seen[device.UUID] = true
				out = append(out, device)
			}
		}
	}
	return out
}

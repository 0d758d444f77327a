package inventory

import (
	"cmp"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Pool is a set of nodes, and the sum of their GPUs.
type Pool struct {
	Name string `json:"name"`
	// Description is that of its GPUPool, else that of its nodes: the alphabetically first of several, so that it is stable.
	Description string `json:"description,omitempty"`
	GPUs        GPUs   `json:"gpus"`
	SharedGPUs  *GPUs  `json:"sharedGPUs,omitempty"`
	// SharedMemory is the memory that shares can hold of the pool's GPUs, and hold.
	SharedMemory *Capacity `json:"sharedMemory,omitempty"`
	// MIG counts the MIG slices of its nodes, by profile.
	MIG []ProfileCount `json:"mig,omitempty"`
	// CPU and Memory are those of its nodes, and the requests of pods.
	CPU    Capacity `json:"cpu"`
	Memory Capacity `json:"memory"`
	// Nodes are the names of the pool's nodes.
	Nodes []string `json:"nodes"`
	// ReadyNodes is how many of them take new pods.
	ReadyNodes int `json:"readyNodes"`
	// Types has one entry for each GPU type of the pool, sorted by name.
	Types []TypeSummary `json:"types"`
	// Declared is the content of its GPUPool; nil if there is none, or none that the user may see.
	Declared *Declared `json:"gpuPool,omitempty"`
}

// Declared is the content of a GPUPool: the requirements on its nodes, and the state of the pool.
type Declared struct {
	Spec   names.GPUPoolSpec   `json:"spec"`
	Status names.GPUPoolStatus `json:"status"`
	// Generation is that of the spec: a status that has observed an earlier one is stale.
	Generation int64 `json:"generation"`
}

// IsStale reports whether the status is not of this spec yet.
func (d *Declared) IsStale() bool { return d.Status.ObservedGeneration < d.Generation }

// TypeSummary is the part of a pool that has one type of GPU.
type TypeSummary struct {
	// GPUType is "" for GPUs of unknown type.
	GPUType string `json:"gpuType"`
	Nodes   int    `json:"nodes"`
	GPUs    GPUs   `json:"gpus"`
}

// FindPool returns the pool of that name.
func (c Cluster) FindPool(name string) (Pool, bool) {
	return findFirst(c.Pools, func(p Pool) bool { return p.Name == name })
}

// FindNode returns the node of that name.
func (c Cluster) FindNode(name string) (Node, bool) {
	return findFirst(c.Nodes, func(n Node) bool { return n.Name == name })
}

func findFirst[T any](list []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	var none T
	return none, false
}

// buildPools groups nodes, which are sorted by name, by their pool. A pool that is declared is there without nodes, too.
func buildPools(nodes []Node, declared []names.GPUPool) []Pool {
	byName := map[string]*Pool{}
	for i := range declared {
		d := &declared[i]
		byName[d.Name] = &Pool{Name: d.Name, Nodes: []string{}, Types: []TypeSummary{},
			Declared: &Declared{Spec: d.Spec, Status: d.Status, Generation: d.Generation}}
	}
	for _, node := range nodes {
		pool := byName[node.Pool]
		if pool == nil {
			pool = &Pool{Name: node.Pool, Types: []TypeSummary{}}
			byName[node.Pool] = pool
		}
		pool.addNode(node)
	}
	out := make([]Pool, 0, len(byName))
	for _, pool := range byName {
		pool.setDescription()
		slices.SortFunc(pool.Types, func(a, b TypeSummary) int { return cmp.Compare(a.GPUType, b.GPUType) })
		out = append(out, *pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// setDescription gives the description of the GPUPool precedence over that of the nodes.
func (p *Pool) setDescription() {
	if p.Declared != nil && p.Declared.Spec.Description != "" {
		p.Description = p.Declared.Spec.Description
	}
	if p.Description == "" && p.Name == names.DefaultPool {
		p.Description = "nodes that are in no other pool"
	}
}

func (p *Pool) addNode(node Node) {
	p.Nodes = append(p.Nodes, node.Name)
	if node.Note != "" && (p.Description == "" || node.Note < p.Description) {
		p.Description = node.Note
	}
	p.MIG = AddProfiles(p.MIG, node.MIG)
	p.GPUs = p.GPUs.Add(node.GPUs)
	p.CPU, p.Memory = p.CPU.Add(node.CPU), p.Memory.Add(node.Memory)
	if node.IsSchedulable() {
		p.ReadyNodes++
	}
	if node.SharedGPUs != nil {
		if p.SharedGPUs == nil {
			p.SharedGPUs = &GPUs{}
		}
		*p.SharedGPUs = p.SharedGPUs.Add(*node.SharedGPUs)
	}
	p.addSharedMemory(node.SharedMemory)
	if node.GPUs.isZero() && node.GPUType == "" {
		return // a node without GPUs is in the pool, but adds no type
	}
	i := slices.IndexFunc(p.Types, func(t TypeSummary) bool { return t.GPUType == node.GPUType })
	if i < 0 {
		i = len(p.Types)
		p.Types = append(p.Types, TypeSummary{GPUType: node.GPUType})
	}
	p.Types[i].Nodes++
	p.Types[i].GPUs = p.Types[i].GPUs.Add(node.GPUs)
}

func (p *Pool) addSharedMemory(of *Capacity) {
	switch {
	case of == nil:
	case p.SharedMemory == nil:
		p.SharedMemory = of
	default:
		sum := p.SharedMemory.Add(*of)
		p.SharedMemory = &sum
	}
}

package inventory

import (
	"cmp"
	"slices"
)

// Pool is a set of nodes, and the sum of their GPUs.
type Pool struct {
	Name       string `json:"name"`
	GPUs       GPUs   `json:"gpus"`
	SharedGPUs *GPUs  `json:"sharedGPUs,omitempty"`
	// Nodes are the names of the pool's nodes.
	Nodes []string `json:"nodes"`
	// ReadyNodes is how many of them take new pods.
	ReadyNodes int `json:"readyNodes"`
	// Types has one entry for each GPU type of the pool, sorted by name.
	Types []TypeSummary `json:"types"`
}

// TypeSummary is the part of a pool that has one type of GPU.
type TypeSummary struct {
	// GPUType is "" for GPUs whose type nothing says.
	GPUType string `json:"gpuType"`
	Nodes   int    `json:"nodes"`
	GPUs    GPUs   `json:"gpus"`
}

// Pool returns the pool of that name.
func (c Cluster) Pool(name string) (Pool, bool) {
	return find(c.Pools, func(p Pool) bool { return p.Name == name })
}

// Node returns the node of that name.
func (c Cluster) Node(name string) (Node, bool) {
	return find(c.Nodes, func(n Node) bool { return n.Name == name })
}

func find[T any](list []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	var none T
	return none, false
}

// buildPools groups nodes, which are sorted by name, by their pool.
func buildPools(nodes []Node) []Pool {
	byName := map[string]*Pool{}
	for _, node := range nodes {
		pool := byName[node.Pool]
		if pool == nil {
			pool = &Pool{Name: node.Pool, Types: []TypeSummary{}}
			byName[node.Pool] = pool
		}
		pool.add(node)
	}
	out := make([]Pool, 0, len(byName))
	for _, pool := range byName {
		slices.SortFunc(pool.Types, func(a, b TypeSummary) int { return cmp.Compare(a.GPUType, b.GPUType) })
		out = append(out, *pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (p *Pool) add(node Node) {
	p.Nodes = append(p.Nodes, node.Name)
	p.GPUs = p.GPUs.plus(node.GPUs)
	if node.Schedulable() {
		p.ReadyNodes++
	}
	if node.SharedGPUs != nil {
		if p.SharedGPUs == nil {
			p.SharedGPUs = &GPUs{}
		}
		*p.SharedGPUs = p.SharedGPUs.plus(*node.SharedGPUs)
	}
	if node.GPUs.isZero() && node.GPUType == "" {
		return // a node without GPUs is in the pool, but adds no type
	}
	i := slices.IndexFunc(p.Types, func(t TypeSummary) bool { return t.GPUType == node.GPUType })
	if i < 0 {
		i = len(p.Types)
		p.Types = append(p.Types, TypeSummary{GPUType: node.GPUType})
	}
	p.Types[i].Nodes++
	p.Types[i].GPUs = p.Types[i].GPUs.plus(node.GPUs)
}

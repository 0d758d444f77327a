package server

import (
	"context"
	"net/http"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// PoolItem is a pool of a list.
type PoolItem struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	GPUTotal    int64              `json:"gpuTotal"`
	GPUUsed     int64              `json:"gpuUsed"`
	Unhealthy   int64              `json:"gpuUnhealthy,omitempty" doc:"GPUs that no new pod gets because they are not healthy"`
	GPUFree     int64              `json:"gpuFree" doc:"What new pods could get: 0 on nodes that take none, and no unhealthy GPU"`
	GPUType     []string           `json:"gpuType"`
	Status      string             `json:"status" enum:"active,unavailable" doc:"unavailable when no node takes pods"`
	NodeCount   int                `json:"nodeCount"`
	ReadyNodes  int                `json:"readyNodes"`
	CPU         inventory.Capacity `json:"cpu" doc:"Cores of its nodes, and how many of them pods ask for"`
	Memory      inventory.Capacity `json:"memory" doc:"Memory of its nodes, and how much of it pods ask for"`
	// MIG lists the slices of its nodes; empty if no GPU is in MIG mode.
	MIG []inventory.ProfileCount `json:"mig,omitempty" doc:"MIG slices, by profile"`
	// Declared is nil for a pool without a GPUPool.
	Declared *DeclaredPool `json:"gpuPool,omitempty" doc:"What the GPUPool of that name says, where there is one"`
}

// PoolDetail is a pool with its nodes. It has the keys of [PoolItem].
type PoolDetail struct {
	Name        string                   `json:"name"`
	Description string                   `json:"description"`
	Status      string                   `json:"status" enum:"active,unavailable" doc:"unavailable when no node takes pods"`
	Nodes       []string                 `json:"nodes"`
	ReadyNodes  int                      `json:"readyNodes"`
	GPUTotal    int64                    `json:"gpuTotal"`
	GPUUsed     int64                    `json:"gpuUsed"`
	Unhealthy   int64                    `json:"gpuUnhealthy,omitempty" doc:"GPUs that no new pod gets because they are not healthy"`
	GPUFree     int64                    `json:"gpuFree" doc:"What new pods could get: 0 on nodes that take none, and no unhealthy GPU"`
	GPUTypes    []string                 `json:"gpuType"`
	CPU         inventory.Capacity       `json:"cpu" doc:"Cores of its nodes, and how many of them pods ask for"`
	Memory      inventory.Capacity       `json:"memory" doc:"Memory of its nodes, and how much of it pods ask for"`
	Use         usage.MachineLoad        `json:"use" doc:"How much CPU and memory its nodes use, where the cluster has a metrics-server, or why that is not known"`
	ByType      []inventory.TypeSummary  `json:"byType" doc:"The sums for each type of GPU"`
	SharedGPUs  *inventory.GPUs          `json:"sharedGpus,omitempty" doc:"Slots on shared GPUs"`
	MIG         []inventory.ProfileCount `json:"mig,omitempty" doc:"MIG slices, by profile"`
	Declared    *DeclaredPool            `json:"gpuPool,omitempty" doc:"What the GPUPool of that name says, where there is one"`
	Jobs        []PoolJob                `json:"jobs" doc:"Jobs of the pool that you may see"`
}

// PoolJob is a job of a pool.
type PoolJob struct {
	JobID     string `json:"jobId"`
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Status    string `json:"status"`
	GPUs      int64  `json:"gpus"`
}

type poolListOutput struct{ Body []PoolItem }

type poolOutput struct {
	ETagged
	Body PoolDetail
}

// PoolRef names a pool in a path.
type PoolRef struct {
	Pool string `path:"poolName" maxLength:"63"`
}

func (s *Server) poolRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/pools", id: "listPools", tag: "pools",
		summary: "List pools with their GPUs"}, s.listPools)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/pools/{poolName}", id: "getPool", tag: "pools",
		summary: "A pool, its nodes and its jobs", fails: []int{http.StatusNotFound}}, s.getPool)
	s.poolWriteRoutes()
}

// fleetView returns the cached view to a caller that may list nodes.
func (s *Server) fleetView(ctx context.Context) (*view, error) {
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	return view, caller.CheckListRight(ctx, "", nodeResource)
}

func (s *Server) listPools(ctx context.Context, _ *empty) (*poolListOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	out := &poolListOutput{Body: make([]PoolItem, len(view.Pools))}
	for i := range view.Pools {
		out.Body[i] = poolItem(&view.Pools[i])
	}
	return out, nil
}

func (s *Server) getPool(ctx context.Context, in *PoolRef) (*poolOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	pool, ok := view.FindPool(in.Pool)
	if !ok {
		return nil, notFoundErrorf("pool %q not found: a pool without nodes does not exist, unless there is a GPUPool of that name", in.Pool)
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	scope, err := caller.FindScope(ctx, view.jobNamespaces, jobResources...)
	if err != nil {
		return nil, err
	}
	item := poolItem(&pool)
	out := &poolOutput{ETagged: ETagged{poolETag(in.Pool, view.Objects.Nodes)}, Body: PoolDetail{
		Name: item.Name, Description: item.Description, Status: item.Status, Nodes: pool.Nodes, ReadyNodes: item.ReadyNodes,
		GPUTotal: item.GPUTotal, GPUUsed: item.GPUUsed, GPUFree: item.GPUFree, Unhealthy: item.Unhealthy, GPUTypes: item.GPUType,
		CPU: item.CPU, Memory: item.Memory, Use: usage.ReadMachines(ctx, caller.Kubernetes.CoreV1().RESTClient()).LoadOf(pool.Nodes),
		ByType: orEmpty(pool.Types), SharedGPUs: pool.SharedGPUs, MIG: pool.MIG, Declared: item.Declared,
		Jobs: []PoolJob{},
	}}
	filter := JobFilter{Pool: in.Pool}
	for _, job := range filter.filterJobs(view.Jobs, scope) {
		out.Body.Jobs = append(out.Body.Jobs, PoolJob{
			JobID: job.Name, Namespace: job.Namespace, Kind: job.Kind, Status: string(job.Status), GPUs: job.GPUs,
		})
	}
	return out, nil
}

func poolItem(pool *inventory.Pool) PoolItem {
	item := PoolItem{
		Name: pool.Name, Description: pool.Description,
		GPUTotal: pool.GPUs.Allocatable, GPUUsed: pool.GPUs.Used, GPUFree: pool.GPUs.Free, Unhealthy: pool.GPUs.Unhealthy,
		GPUType: []string{}, Status: "active", NodeCount: len(pool.Nodes), ReadyNodes: pool.ReadyNodes, CPU: pool.CPU, Memory: pool.Memory, MIG: pool.MIG, Declared: declaredPool(pool.Declared),
	}
	for _, summary := range pool.Types {
		if summary.GPUType != "" {
			item.GPUType = append(item.GPUType, summary.GPUType)
		}
	}
	if pool.ReadyNodes == 0 {
		item.Status = "unavailable"
	}
	return item
}

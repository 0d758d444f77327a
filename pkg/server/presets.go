package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Preset is what an administrator has prepared for the resources of jobs.
type Preset struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Pool        string   `json:"pool,omitempty"`
	GPU         int64    `json:"gpu"`
	GPUType     []string `json:"gpuType,omitempty" doc:"The types that it takes, the preferred first; absent for any"`
	CPU         string   `json:"cpu,omitempty"`
	Memory      string   `json:"memory,omitempty"`
	// MIG is nil where it asks for no slices.
	MIG     []inventory.AskedProfile `json:"mig,omitempty" doc:"MIG slices"`
	Problem string                   `json:"problem,omitempty" doc:"Why it cannot be used"`
}

// PresetList is a page of presets.
type PresetList Page[Preset]

type presetListOutput struct{ Body PresetList }

type presetListInput struct{ Paging }

func (s *Server) presetRoutes() {
	register(s, route{method: http.MethodGet, path: Root + "/presets", id: "listPresets", tag: "documents",
		summary: "List what administrators have prepared for resources.preset of jobs",
		fails:   []int{http.StatusUnprocessableEntity}}, s.listPresets)
}

func (s *Server) listPresets(ctx context.Context, in *presetListInput) (*presetListOutput, error) {
	texts, err := presetTexts(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := take(ctx, s.budgets.thinking, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	names := slices.Sorted(maps.Keys(texts))
	list, err := cut(in.Paging, names, func(name string) string { return name }, func(name string) Preset {
		return presetOf(jobplan.ParsePreset(name, texts[name]))
	})
	return &presetListOutput{Body: PresetList(list)}, err
}

func presetOf(p jobplan.Preset) Preset {
	out := Preset{
		Name: p.Name, Description: p.Description, Problem: p.Problem,
		Pool: p.Resources.Pool, GPU: p.Resources.GPU, GPUType: p.Resources.GPUTypes,
		CPU: amount(p.Resources.CPU), Memory: amount(p.Resources.Memory),
	}
	for _, slice := range p.Resources.MIG {
		out.MIG = append(out.MIG, inventory.AskedProfile{Profile: slice.Profile, Count: slice.Count})
	}
	return out
}

// presetTexts reads the presets as the caller.
func presetTexts(ctx context.Context) (map[string]string, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return inventory.NewReader(caller.Kubernetes).Presets(ctx)
}

// filling fills in the jobs of a request. What it needs of the cluster it reads as the caller, once for all of them.
type filling struct {
	server *Server
	texts  func() (map[string]string, error)
	shares func() (map[string]string, error)
}

func (s *Server) filling(ctx context.Context) *filling {
	return &filling{
		server: s,
		texts:  sync.OnceValues(func() (map[string]string, error) { return presetTexts(ctx) }),
		shares: sync.OnceValues(func() (map[string]string, error) { return poolShares(ctx) }),
	}
}

// poolShares reads what pools give to their jobs as the caller.
func poolShares(ctx context.Context) (map[string]string, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	read, err := snapshot.Read(ctx, caller.Kubernetes, snapshot.GPUPools())
	if err != nil {
		return nil, err
	}
	return jobplan.PoolShares(read.GPUPools, nil), nil
}

// fill fills in the preset of a job, and what its pool gives it, in the turn of the caller. The notes say what the pool gave.
func (f *filling) fill(ctx context.Context, doc document) (filled document, notes []string, err error) {
	doc, err = f.fillPreset(ctx, doc)
	if err != nil || !jobplan.TakesShare(doc) {
		return doc, nil, err
	}
	shares, err := f.shares()
	if err != nil || len(shares) == 0 {
		return doc, nil, err
	}
	leave, err := f.server.takeToRead(ctx, doc.Source)
	if err != nil {
		return doc, nil, err
	}
	defer leave()
	filled, share, err := jobplan.Shared(doc, shares)
	if err != nil {
		return doc, nil, invalidf("%v", err)
	}
	if share != "" {
		notes = []string{fmt.Sprintf("pool %s gives its jobs gpu-share: %s; gpu-share: 0 asks for whole GPUs", filled.Job.Resources.Pool, share)}
	}
	return filled, notes, nil
}

func (f *filling) fillPreset(ctx context.Context, doc document) (document, error) {
	if doc.Job == nil || doc.Job.Resources.Preset == "" {
		return doc, nil
	}
	texts, err := f.texts()
	if err != nil {
		return doc, err
	}
	leave, err := f.server.takeToRead(ctx, doc.Source)
	if err != nil {
		return doc, err
	}
	defer leave()
	filled, err := jobplan.Filled(doc, texts)
	if err != nil {
		return doc, invalidf("%v", err)
	}
	return filled, nil
}

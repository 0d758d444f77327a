package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// Preset is a set of job resources prepared by an administrator.
type Preset struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Pool        string   `json:"pool,omitempty"`
	GPU         int64    `json:"gpu"`
	GPUType     []string `json:"gpuType,omitempty" doc:"The types that it takes, the preferred first; absent for any"`
	CPU         string   `json:"cpu,omitempty"`
	Memory      string   `json:"memory,omitempty"`
	// MIG is nil if the preset has no slices.
	MIG     []inventory.AskedProfile `json:"mig,omitempty" doc:"MIG slices"`
	Problem string                   `json:"problem,omitempty" doc:"Why it cannot be used"`
}

// PresetList is a page of presets.
type PresetList Page[Preset]

type presetListOutput struct{ Body PresetList }

type presetListInput struct{ Paging }

func (s *Server) presetRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/presets", id: "listPresets", tag: "documents",
		summary: "List what administrators have prepared for resources.preset of jobs",
		fails:   []int{http.StatusUnprocessableEntity}}, s.listPresets)
}

func (s *Server) listPresets(ctx context.Context, in *presetListInput) (*presetListOutput, error) {
	texts, err := presetTexts(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	names := slices.Sorted(maps.Keys(texts))
	list, err := cutPage(in.Paging, names, func(name string) string { return name }, func(name string) Preset {
		return convertPreset(jobplan.ParsePreset(name, texts[name]))
	})
	return &presetListOutput{Body: PresetList(list)}, err
}

func convertPreset(p jobplan.Preset) Preset {
	out := Preset{
		Name: p.Name, Description: p.Description, Problem: p.Problem,
		Pool: p.Resources.Pool, GPU: p.Resources.GPU, GPUType: p.Resources.GPUTypes,
		CPU: formatQuantity(p.Resources.CPU), Memory: formatQuantity(p.Resources.Memory),
	}
	for _, slice := range p.Resources.MIG {
		out.MIG = append(out.MIG, inventory.AskedProfile{Profile: slice.Profile, Count: slice.Count})
	}
	return out
}

// presetTexts reads the presets as the caller.
func presetTexts(ctx context.Context) (map[string]string, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	return inventory.NewReader(caller.Kubernetes).Presets(ctx)
}

// liveFunc reads the document of the existing job, the zero document for none.
type liveFunc func(ctx context.Context, doc document) (document, error)

// noLiveDocument is the liveFunc of jobs to be created.
func noLiveDocument(context.Context, document) (document, error) { return document{}, nil }

// liveDocumentIn returns the liveFunc of jobs to be applied. Jobs without a namespace are in the given one.
func liveDocumentIn(namespace string) liveFunc {
	return func(ctx context.Context, doc document) (document, error) {
		writer, err := newWriter(ctx)
		if err != nil {
			return document{}, err
		}
		ref := submit.Ref{Namespace: cmp.Or(doc.Namespace, namespace, defaultNamespace), Name: doc.Name, Kind: string(doc.Kind)}
		return writer.DocumentIfExists(ctx, ref)
	}
}

// jobFiller fills in the jobs of a request. It reads presets and pool defaults as the caller, once for all jobs.
type jobFiller struct {
	server *Server
	live   liveFunc
	texts  func() (map[string]string, error)
	shares func() (map[string]string, error)
}

func (s *Server) newJobFiller(ctx context.Context, live liveFunc) *jobFiller {
	return &jobFiller{
		server: s, live: live,
		texts:  sync.OnceValues(func() (map[string]string, error) { return presetTexts(ctx) }),
		shares: sync.OnceValues(func() (map[string]string, error) { return poolShares(ctx) }),
	}
}

// poolShares reads the GPU share defaults of pools as the caller.
func poolShares(ctx context.Context) (map[string]string, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	read, err := snapshot.Read(ctx, caller.Kubernetes, snapshot.GPUPools())
	if err != nil {
		return nil, err
	}
	return jobplan.PoolShares(read.GPUPools, nil), nil
}

// fillJob fills in the preset of a job, and the GPU share: the pool's default, or the share that the existing job has. It parses in a slot of the
// caller. The notes describe the share.
func (f *jobFiller) fillJob(ctx context.Context, doc document) (filled document, notes []string, err error) {
	doc, err = f.fillPreset(ctx, doc)
	if err != nil || !jobplan.TakesShare(doc) {
		return doc, nil, err
	}
	shares, err := f.shares()
	if err != nil {
		return doc, nil, err
	}
	before, err := f.live(ctx, doc)
	if err != nil {
		return doc, nil, err
	}
	pool := doc.Job.Resources.Pool
	now := shares[pool]
	if share, kept := jobplan.KeptShare(before, doc); kept {
		shares = map[string]string{pool: share}
	}
	leave, err := f.server.acquireReadSlot(ctx, doc.Source)
	if err != nil {
		return doc, nil, err
	}
	defer leave()
	filled, share, err := jobplan.FillPoolShare(doc, shares)
	if err != nil {
		return doc, nil, invalidErrorf("%v", err)
	}
	if note := jobplan.ShareNote(pool, share, now).String(); note != "" {
		notes = []string{note}
	}
	return filled, notes, nil
}

func (f *jobFiller) fillPreset(ctx context.Context, doc document) (document, error) {
	if doc.Job == nil || doc.Job.Resources.Preset == "" {
		return doc, nil
	}
	texts, err := f.texts()
	if err != nil {
		return doc, err
	}
	leave, err := f.server.acquireReadSlot(ctx, doc.Source)
	if err != nil {
		return doc, err
	}
	defer leave()
	filled, err := jobplan.FillPreset(doc, texts)
	if err != nil {
		return doc, invalidErrorf("%v", err)
	}
	return filled, nil
}

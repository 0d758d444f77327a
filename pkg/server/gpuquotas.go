package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// gpuQuotaResource is the resource of GPUQuotas. They are few and rarely queried, so each request reads them from the API server as the caller.
var gpuQuotaResource = access.Resource{Group: names.GroupName, Resource: "gpuquotas"}

type gpuQuotasOutput struct{ Body []inventory.GPUQuota }

type gpuQuotaOutput struct{ Body inventory.GPUQuota }

// GPUQuotaRef names a GPUQuota in a path.
type GPUQuotaRef struct {
	GPUQuota string `path:"gpuQuotaName" maxLength:"253" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
}

func (s *Server) gpuQuotaRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/gpuquotas", id: "listGPUQuotas", tag: "quotas",
		summary: "List GPUQuotas: the GPUs of pools that namespaces are guaranteed, may have, and have",
		detail: "Who may list the nodes, and the pods of all namespaces, gets what is so now, and which jobs borrow; all others what gpu-controller " +
			"has counted, without jobs. A cluster that knows no GPUQuotas has none."}, s.listGPUQuotas)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/gpuquotas/{gpuQuotaName}", id: "getGPUQuota", tag: "quotas",
		summary: "A GPUQuota: what is in use of it, what is lent, and to whom", fails: []int{http.StatusNotFound}}, s.getGPUQuota)
}

func (s *Server) listGPUQuotas(ctx context.Context, _ *empty) (*gpuQuotasOutput, error) {
	all, err := s.readGPUQuotas(ctx)
	return &gpuQuotasOutput{Body: orEmpty(all)}, err
}

func (s *Server) getGPUQuota(ctx context.Context, in *GPUQuotaRef) (*gpuQuotaOutput, error) {
	all, err := s.readGPUQuotas(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(q inventory.GPUQuota) bool { return q.Name == in.GPUQuota })
	if i < 0 {
		return nil, notFoundErrorf("GPUQuota %q not found", in.GPUQuota)
	}
	return &gpuQuotaOutput{Body: all[i]}, nil
}

// readGPUQuotas returns all GPUQuotas. Usage is counted from the cache where the caller may see it.
func (s *Server) readGPUQuotas(ctx context.Context) ([]inventory.GPUQuota, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckListRight(ctx, "", gpuQuotaResource); err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.querying, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	read, err := snapshot.Read(ctx, caller.Kubernetes, snapshot.GPUQuotas().IfAllowed())
	if err != nil {
		return nil, err
	}
	read.Now = s.options.Now()
	switch err := caller.CheckListRight(ctx, "", nodeResource, podResource); {
	case errors.As(err, new(*access.DeniedError)):
		read.MarkUnread(snapshot.PartPods)
		return inventory.BuildGPUQuotas(read), nil
	case err != nil:
		return nil, err
	}
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	read.Nodes, read.Pods, read.GPUPools = view.Objects.Nodes, view.Objects.Pods, view.Objects.GPUPools
	return inventory.BuildGPUQuotas(read), nil
}

// gpuQuotaCacheTTL is how long GPUQuotas are cached for queue listings.
const gpuQuotaCacheTTL = 5 * time.Second

// gpuQuotaCache caches all GPUQuotas and reads them at most once per [gpuQuotaCacheTTL]. It reads with the server's identity: whoever may see a
// job may see what a quota means for it.
type gpuQuotaCache struct {
	mu     sync.Mutex
	quotas []names.GPUQuota
	until  time.Time
}

func (g *gpuQuotaCache) readCached(ctx context.Context, own kubernetes.Interface, now time.Time) ([]names.GPUQuota, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.until) {
		return g.quotas, nil
	}
	read, err := snapshot.Read(ctx, own, snapshot.GPUQuotas().IfAllowed())
	if err != nil {
		return nil, err
	}
	g.quotas, g.until = read.GPUQuotas, now.Add(gpuQuotaCacheTTL)
	return g.quotas, nil
}

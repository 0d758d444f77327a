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

// gpuQuotaResource are GPUQuotas, which are read from the API server each time, as the caller: few ask, and few there are.
var gpuQuotaResource = access.Resource{Group: names.GroupName, Resource: "gpuquotas"}

type gpuQuotasOutput struct{ Body []inventory.GPUQuota }

type gpuQuotaOutput struct{ Body inventory.GPUQuota }

// GPUQuotaRef names a GPUQuota in a path.
type GPUQuotaRef struct {
	GPUQuota string `path:"gpuQuotaName" maxLength:"253" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
}

func (s *Server) gpuQuotaRoutes() {
	register(s, route{method: http.MethodGet, path: Root + "/gpuquotas", id: "listGPUQuotas", tag: "quotas",
		summary: "List GPUQuotas: the GPUs of pools that namespaces are guaranteed, may have, and have",
		detail: "Who may list the nodes, and the pods of all namespaces, gets what is so now, and which jobs borrow; all others what gpu-controller " +
			"has counted, without jobs. A cluster that knows no GPUQuotas has none."}, s.listGPUQuotas)
	register(s, route{method: http.MethodGet, path: Root + "/gpuquotas/{gpuQuotaName}", id: "getGPUQuota", tag: "quotas",
		summary: "A GPUQuota: what is in use of it, what is lent, and to whom", fails: []int{http.StatusNotFound}}, s.getGPUQuota)
}

func (s *Server) listGPUQuotas(ctx context.Context, _ *empty) (*gpuQuotasOutput, error) {
	all, err := s.gpuQuotas(ctx)
	return &gpuQuotasOutput{Body: orEmpty(all)}, err
}

func (s *Server) getGPUQuota(ctx context.Context, in *GPUQuotaRef) (*gpuQuotaOutput, error) {
	all, err := s.gpuQuotas(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(q inventory.GPUQuota) bool { return q.Name == in.GPUQuota })
	if i < 0 {
		return nil, notFoundf("GPUQuota %q not found", in.GPUQuota)
	}
	return &gpuQuotaOutput{Body: all[i]}, nil
}

// gpuQuotas are those that there are, counted from memory as far as the caller may see that.
func (s *Server) gpuQuotas(ctx context.Context) ([]inventory.GPUQuota, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.MayList(ctx, "", gpuQuotaResource); err != nil {
		return nil, err
	}
	leave, err := take(ctx, s.budgets.asking, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	read, err := snapshot.Read(ctx, caller.Kubernetes, snapshot.GPUQuotas().IfAllowed())
	if err != nil {
		return nil, err
	}
	read.Now = s.options.Now()
	switch err := caller.MayList(ctx, "", nodeResource, podResource); {
	case errors.As(err, new(*access.DeniedError)):
		read.Hide(snapshot.PartPods)
		return inventory.BuildGPUQuotas(read), nil
	case err != nil:
		return nil, err
	}
	view, err := s.mirror.view()
	if err != nil {
		return nil, err
	}
	read.Nodes, read.Pods, read.GPUPools = view.Objects.Nodes, view.Objects.Pods, view.Objects.GPUPools
	return inventory.BuildGPUQuotas(read), nil
}

// gpuQuotasFor is how long the GPUQuotas are believed that lines are judged by.
const gpuQuotasFor = 5 * time.Second

// gpuQuotasOfCluster are all GPUQuotas, read at most once in [gpuQuotasFor] however many lists ask: with the identity of the server, as
// what they say to a job is for who may see the job.
type gpuQuotasOfCluster struct {
	mu     sync.Mutex
	quotas []names.GPUQuota
	until  time.Time
}

func (g *gpuQuotasOfCluster) read(ctx context.Context, own kubernetes.Interface, now time.Time) ([]names.GPUQuota, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.until) {
		return g.quotas, nil
	}
	read, err := snapshot.Read(ctx, own, snapshot.GPUQuotas().IfAllowed())
	if err != nil {
		return nil, err
	}
	g.quotas, g.until = read.GPUQuotas, now.Add(gpuQuotasFor)
	return g.quotas, nil
}

package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// spotPoolResource is the resource of SpotPools. They are few and rarely queried, so each request reads them from the API server as the caller.
var spotPoolResource = access.Resource{Group: names.GroupName, Resource: "spotpools"}

type spotPoolsOutput struct{ Body []inventory.SpotPool }

type spotPoolOutput struct{ Body inventory.SpotPool }

// SpotPoolRef names a SpotPool in a path.
type SpotPoolRef struct {
	SpotPool string `path:"spotPoolName" maxLength:"63"`
}

func (s *Server) spotPoolRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/spotpools", id: "listSpotPools", tag: "pools",
		summary: "List SpotPools, which keep machines of a cloud, with their machines",
		detail:  "A cluster that knows no SpotPools has none."}, s.listSpotPools)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/spotpools/{spotPoolName}", id: "getSpotPool", tag: "pools",
		summary: "A SpotPool and its machines", fails: []int{http.StatusNotFound}}, s.getSpotPool)
}

func (s *Server) listSpotPools(ctx context.Context, _ *empty) (*spotPoolsOutput, error) {
	pools, err := s.readSpotPools(ctx)
	return &spotPoolsOutput{Body: orEmpty(pools)}, err
}

func (s *Server) getSpotPool(ctx context.Context, in *SpotPoolRef) (*spotPoolOutput, error) {
	pools, err := s.readSpotPools(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pools, func(p inventory.SpotPool) bool { return p.Name == in.SpotPool })
	if i < 0 {
		return nil, notFoundErrorf("SpotPool %q not found", in.SpotPool)
	}
	return &spotPoolOutput{Body: pools[i]}, nil
}

// readSpotPools returns all SpotPools, as far as the caller may see them.
func (s *Server) readSpotPools(ctx context.Context) ([]inventory.SpotPool, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckListRight(ctx, "", spotPoolResource); err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.querying, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	pools, err := inventory.NewReader(caller.Kubernetes).SpotPools(ctx)
	if errors.As(err, new(*inventory.NoSpotPoolsError)) {
		return nil, nil
	}
	return pools, err
}

package gpureserve

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// keptPods counts attempts, whether or not they found another node. It has the name of the plugin that kept nodes before.
var keptPods = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "gpu_scheduler_score_kept_whole_pods_total",
	Help:           "Scheduling attempts in which an idle node was kept whole from a pod that would have fitted there, by pool.",
	StabilityLevel: metrics.ALPHA,
}, []string{"pool"})

// registerMetrics shows the metrics on the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(keptPods) })

// showPools has a value of keptPods for each pool there is, before it counts anything: a rate begins at 0. That of a pool
// which is gone is dropped, or the values would be those of all pools that ever were.
func showPools(last, now sets.Set[string]) {
	for pool := range last.Difference(now) {
		keptPods.Delete(map[string]string{"pool": pool})
	}
	for pool := range now {
		keptPods.WithLabelValues(pool)
	}
}

// mostPools is how many pools are counted one by one. Nodes are labelled by every kubelet: their pools have no bound.
const (
	mostPools  = 200
	otherPools = "(others)"
)

// shownPools are those of the forecasts that are counted one by one, the first by name.
func shownPools(of *fragmentation.Forecasts) sets.Set[string] {
	all := slices.Sorted(of.Pools())
	return sets.New(all[:min(len(all), mostPools)]...)
}

// shown is what a plugin shows for the forecasts that it saw last.
type shown struct {
	forecasts *fragmentation.Forecasts
	pools     sets.Set[string]
}

// show has the metrics show the pools of the forecasts, if they are others than before.
func (p *Plugin) show(forecasts *fragmentation.Forecasts) {
	before := p.shown.Load()
	if before == nil {
		before = &shown{}
	}
	if before.forecasts == forecasts {
		return
	}
	now := &shown{forecasts: forecasts, pools: shownPools(forecasts)}
	p.shown.Store(now)
	showPools(before.pools, now.pools)
}

// label is what a pool is counted as.
func (s *shown) label(pool string) string {
	if s == nil || !s.pools.Has(pool) {
		return otherPools
	}
	return pool
}

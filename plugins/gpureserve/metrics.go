package gpureserve

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// keptPods counts attempts, whether or not they found another node. It is named after the plugin that kept nodes before.
var keptPods = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "gpu_scheduler_score_kept_whole_pods_total",
	Help:           "Scheduling attempts in which an idle node was kept whole from a pod that would have fitted there, by pool.",
	StabilityLevel: metrics.ALPHA,
}, []string{"pool"})

// registerMetrics registers the metrics of the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(keptPods) })

// showPools initializes keptPods for each existing pool, so that a rate begins at 0. It deletes the values of pools that are gone, or they would
// accumulate.
func showPools(last, now sets.Set[string]) {
	for pool := range last.Difference(now) {
		keptPods.Delete(map[string]string{"pool": pool})
	}
	for pool := range now {
		keptPods.WithLabelValues(pool)
	}
}

// mostPools is how many pools are counted individually. Every kubelet can label its node, so the number of pools is unbounded.
const (
	mostPools  = 200
	otherPools = "(others)"
)

// shownPools returns the pools of the forecasts that are counted individually, the first by name.
func shownPools(of *fragmentation.Forecasts) sets.Set[string] {
	all := slices.Sorted(of.Pools())
	return sets.New(all[:min(len(all), mostPools)]...)
}

// shown is the forecasts that the metrics of a plugin reflect.
type shown struct {
	forecasts *fragmentation.Forecasts
	pools     sets.Set[string]
}

// show updates the pools of the metrics if the forecasts have changed.
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

// label returns the metric label of a pool.
func (s *shown) label(pool string) string {
	if s == nil || !s.pools.Has(pool) {
		return otherPools
	}
	return pool
}

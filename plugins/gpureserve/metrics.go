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

// maxCountedPools is how many pools are counted individually. Every kubelet can label its node, so the number of pools is unbounded.
const (
	maxCountedPools = 200
	otherPools      = "(others)"
)

// shownPools returns the pools of the forecasts that are counted individually, the first by name.
func shownPools(of *fragmentation.Forecasts) sets.Set[string] {
	all := slices.Sorted(of.PoolNames())
	return sets.New(all[:min(len(all), maxCountedPools)]...)
}

// shownForecasts is the forecasts that the metrics of a plugin reflect.
type shownForecasts struct {
	forecasts *fragmentation.Forecasts
	pools     sets.Set[string]
}

// updateShownPools updates the pools of the metrics if the forecasts have changed.
func (p *Plugin) updateShownPools(forecasts *fragmentation.Forecasts) {
	before := p.shown.Load()
	if before == nil {
		before = &shownForecasts{}
	}
	if before.forecasts == forecasts {
		return
	}
	now := &shownForecasts{forecasts: forecasts, pools: shownPools(forecasts)}
	p.shown.Store(now)
	showPools(before.pools, now.pools)
}

// poolLabel returns the metric label of a pool.
func (s *shownForecasts) poolLabel(pool string) string {
	if s == nil || !s.pools.Has(pool) {
		return otherPools
	}
	return pool
}

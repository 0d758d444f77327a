package gpureserve

import (
	"sync"

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
func showPools(last, now *fragmentation.Forecasts) {
	for pool := range last.Pools() {
		if !now.Has(pool) {
			keptPods.Delete(map[string]string{"pool": pool})
		}
	}
	for pool := range now.Pools() {
		keptPods.WithLabelValues(pool)
	}
}

package gpuexplain

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var skippedAttempts = metrics.NewCounter(&metrics.CounterOpts{
	Name:           "gpu_scheduler_explain_skipped_attempts_total",
	Help:           "Attempts that found no node and were counted, but not looked into, because explaining had used up its share of a core.",
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics shows the metrics on the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(skippedAttempts) })

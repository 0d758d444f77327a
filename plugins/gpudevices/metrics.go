package gpudevices

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var unanswered = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "gpu_scheduler_bindings_unanswered",
	Help:           "Pods of which nobody told whether they are bound, and whose cards stay taken until it is known.",
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics shows the metrics on the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(unanswered) })

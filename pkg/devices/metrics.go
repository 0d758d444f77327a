package devices

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var malformedInventories = metrics.NewCounter(&metrics.CounterOpts{
	Name:           "gpu_scheduler_devices_malformed_inventories_total",
	Help:           "Inventories of nodes that were ignored, in whole or in part, because they are malformed. Each content counts once.",
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics registers the metrics of the scheduler's /metrics, once for all ledgers.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(malformedInventories) })

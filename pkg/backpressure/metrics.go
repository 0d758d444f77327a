package backpressure

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	bindings = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "gpu_scheduler_bindings_in_flight",
		Help:           "Bindings under way.",
		StabilityLevel: metrics.ALPHA,
	})
	limits = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "gpu_scheduler_bindings_limit",
		Help:           "How many bindings may be under way when the next pod is taken from the queue, as learnt from what they take.",
		StabilityLevel: metrics.ALPHA,
	})
	overtaken = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "gpu_scheduler_bindings_overtaken",
		Help:           "Bindings under way that many later ones have overtaken: they hang, and hold up no other pod.",
		StabilityLevel: metrics.ALPHA,
	})
	waits = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "gpu_scheduler_binding_wait_seconds",
		Help:           "How long the next pod was not taken from the queue for the bindings under way, where it had to wait.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 9), // up to 128 ms, beyond MaxWait
		StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics adds the metrics to the scheduler's /metrics, if there is a gate.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(bindings, limits, overtaken, waits) })

package gpufilter

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Values of the label reason of podRejections.
const (
	labelMalformed    = "malformed_request"
	labelNoCandidates = "no_candidates"
)

var (
	candidateNodes = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "gpu_scheduler_filter_candidate_nodes",
		Help:           "Nodes of the pod's pool and GPU type, per scheduling attempt.",
		Buckets:        []float64{0, 1, 4, 16, 64, 256, 1024, 4096},
		StabilityLevel: metrics.ALPHA,
	})
	podRejections = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "gpu_scheduler_filter_pod_rejections_total",
		Help:           "Scheduling attempts rejected before any node was looked at, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	nodeRejectionsVec = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "gpu_scheduler_filter_node_rejections_total",
		Help:           "Nodes rejected, by reason. Dry runs of preemption count too.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})

	// nodeRejections holds the counter of each verdict: Filter is too hot to look counters up by label.
	nodeRejections [nodeStatuses]metrics.CounterMetric
)

// registerMetrics registers the metrics of the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(candidateNodes, podRejections, nodeRejectionsVec)
	for v := range nodeStatuses {
		if r := reasonByStatus[v]; r != nil {
			nodeRejections[v] = nodeRejectionsVec.WithLabelValues(r.Code)
		}
	}
	podRejections.WithLabelValues(labelMalformed)
	podRejections.WithLabelValues(labelNoCandidates)
})

package gpuscore

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Values of the label request of scoredPods.
const (
	labelNoGPU  = "none"
	labelWhole  = "whole"
	labelShared = "shared"
	labelMIG    = "mig"
)

// scoredPods counts nothing for pods with a single feasible node, since nothing is scored for them.
var scoredPods = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "gpu_scheduler_score_pods_total",
	Help:           "Scheduling attempts that had several nodes to choose from, by the form of GPU asked for.",
	StabilityLevel: metrics.ALPHA,
}, []string{"request"})

// registerMetrics shows the metrics on the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(scoredPods)
	for _, label := range []string{labelNoGPU, labelWhole, labelShared, labelMIG} {
		scoredPods.WithLabelValues(label)
	}
})

func countPod(request gpu.Request) {
	label := labelNoGPU
	switch {
	case request.Whole > 0:
		label = labelWhole
	case request.Shared > 0:
		label = labelShared
	case request.MIG > 0:
		label = labelMIG
	}
	scoredPods.WithLabelValues(label).Inc()
}

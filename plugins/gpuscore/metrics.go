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

// Values of the label result of policyReloads.
const (
	labelInEffect = "success"
	labelRefused  = "refused"
)

var (
	policyReloads = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "gpu_scheduler_policy_reload_total",
		Help:           "New versions of the scoring policy file, by scheduler profile and by what became of them.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})
	policyGeneration = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "gpu_scheduler_policy_generation",
		Help:           "Scoring policy in effect, counted from the start of the process: 0 are the arguments of the configuration.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	policyLastReloadSuccessful = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "gpu_scheduler_policy_last_reload_successful",
		Help:           "1 while the scoring policy in effect is the one in the file, 0 while the file is refused.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
)

// startReloadMetrics initializes the metrics of a profile with a policy file.
func startReloadMetrics(profile string) {
	for _, result := range []string{labelInEffect, labelRefused} {
		policyReloads.WithLabelValues(profile, result)
	}
	policyGeneration.WithLabelValues(profile).Set(0)
	policyLastReloadSuccessful.WithLabelValues(profile).Set(1)
}

func countReload(profile string, o reloadOutcome) {
	result, successful := labelInEffect, 1.0
	if o.err != nil {
		result, successful = labelRefused, 0
	}
	policyReloads.WithLabelValues(profile, result).Inc()
	policyGeneration.WithLabelValues(profile).Set(float64(o.generation))
	policyLastReloadSuccessful.WithLabelValues(profile).Set(successful)
}

// registerMetrics registers the metrics of the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(scoredPods, policyReloads, policyGeneration, policyLastReloadSuccessful)
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

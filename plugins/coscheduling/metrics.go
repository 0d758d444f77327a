package coscheduling

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Reasons for evictions.
const (
	forPod = "pod"
	// forGang is for a gang of higher priority, or one that is guaranteed the GPUs. forQuota is for a single pod that is guaranteed the GPUs.
	forGang, forQuota = "gang", "quota"
	// forPartialGang is for members of a partially bound gang, which end for no other pod.
	forPartialGang = "half"
)

var evictions = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "gpu_scheduler_evictions_total",
	Help: "Pods that this scheduler evicted, each once, by what for: pod, by kube-scheduler's own preemption; gang; quota, of a single " +
		"pod that is guaranteed their GPUs; half, of gangs that could not be completed.",
	StabilityLevel: metrics.ALPHA,
}, []string{"for"})

// registerMetrics registers the metrics of the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(evictions)
	for _, what := range []string{forPod, forGang, forQuota, forPartialGang} {
		evictions.WithLabelValues(what) // so that the first is a step from 0
	}
})

// CountEviction counts a pod that kube-scheduler's own preemption evicted.
func (*Plugin) CountEviction() { evictions.WithLabelValues(forPod).Inc() }

// OnEvictions sets a callback for the number of pods evicted together, for a gang or for a pod that is guaranteed their GPUs. It is called once,
// before the scheduler runs.
func (p *Plugin) OnEvictions(told func(victims int)) { p.onEvictions = told }

// countVictims reports how many pods were evicted together.
func (p *Plugin) countVictims(victims int) {
	if p.onEvictions != nil && victims > 0 {
		p.onEvictions(victims)
	}
}

package gpudevices

import (
	"strings"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var unanswered = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "gpu_scheduler_bindings_unanswered",
	Help:           "Pods of which nobody told whether they are bound, and whose cards stay taken until it is known.",
	StabilityLevel: metrics.ALPHA,
})

var refusals = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "gpu_scheduler_bindings_refused_total",
	Help: "Bindings that the API server refused, by whom: fence, because another scheduler leads or this one leads under no " +
		"epoch; other.",
	StabilityLevel: metrics.ALPHA,
}, []string{"by"})

// What refuses bindings.
const (
	byFence = "fence"
	byOther = "other"
	// fencePolicy is how the API server names the policy of manifests/policy/fence.yaml when it refuses.
	fencePolicy = "ValidatingAdmissionPolicy 'g8s-fence'"
)

// refusedBy returns what refused a binding, from its error.
func refusedBy(err error) string {
	if RefusedByFence(err.Error()) {
		return byFence
	}
	return byOther
}

// RefusedByFence reports whether a binding was refused because another scheduler leads, which says nothing about the pod.
func RefusedByFence(words string) bool { return strings.Contains(words, fencePolicy) }

// registerMetrics registers the metrics of the scheduler's /metrics, once for all profiles.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(unanswered, refusals)
	for _, by := range []string{byFence, byOther} {
		refusals.WithLabelValues(by) // so that the first is a step from 0
	}
})

package advice

import (
	"github.com/prometheus/client_golang/prometheus"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var (
	// tried counts searches by result.
	tried = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpu_controller_advices_total", Help: "Times that it was tried what more nodes would start, by what came of it: advice, nothing, error.",
	}, []string{"result"})
	// took is the duration of searches.
	took = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "gpu_controller_advice_seconds", Help: "How long it took to try what more nodes would start.",
		Buckets: []float64{0.5, 1, 2, 4, 8, 16, 32, 64}, // a dozen processes of about a second each
	})
)

// Collectors are the metrics of the controller.
func Collectors() []prometheus.Collector { return []prometheus.Collector{tried, took} }

// resultOf returns the metric label of a search's result.
func resultOf(advice *g8s.CapacityAdvice, err error) string {
	switch {
	case err != nil:
		return "error"
	case advice == nil:
		return "nothing"
	}
	return "advice"
}

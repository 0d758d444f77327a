package replace

import "github.com/prometheus/client_golang/prometheus"

// replaced counts the pods that were replaced without the Job controller's wait.
var replaced = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "gpu_controller_replaced_pods_total", Help: "Disrupted pods of Jobs whose next ones were made without a wait.",
})

// Collectors are the metrics of the controller.
func Collectors() []prometheus.Collector { return []prometheus.Collector{replaced} }

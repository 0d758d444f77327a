package broken

import "github.com/prometheus/client_golang/prometheus"

// moved counts pods evicted from broken GPUs.
var moved = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "gpu_controller_pods_moved_from_broken_gpus_total", Help: "Pods that were evicted as a GPU of theirs, or of their gang, was found broken.",
})

// Collectors are the metrics of the controller.
func Collectors() []prometheus.Collector { return []prometheus.Collector{moved} }

package rejected

import "github.com/prometheus/client_golang/prometheus"

// rejections counts the pods of Jobs that kubelets have rejected.
var rejections = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "gpu_controller_rejected_pods_total", Help: "Pods of Jobs that a kubelet has rejected for their GPUs, which costs their jobs no retry.",
})

// Collectors are the metrics of the controller.
func Collectors() []prometheus.Collector { return []prometheus.Collector{rejections} }

package recovery

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/controller/bounded"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// steps counts the steps on nodes.
var steps = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gpu_controller_node_steps_total", Help: "What was done about nodes that fail: suspect, trust, declare, return.",
}, []string{"step"})

// Collectors returns the metrics of the controller, which reads nodes from a cache.
func Collectors(nodes client.Reader) []prometheus.Collector {
	return []prometheus.Collector{steps, Census{Nodes: nodes}}
}

// countStep counts a performed step.
func countStep(step Step) {
	for name, done := range map[string]bool{"suspect": step.Suspect, "trust": step.Trust, "declare": step.Declare, "return": step.Return} {
		if done {
			steps.WithLabelValues(name).Inc()
		}
	}
}

// Census counts the cached nodes with GPUs by state, on each scrape.
type Census struct{ Nodes client.Reader }

var _ prometheus.Collector = Census{}

var censusOf = prometheus.NewDesc("gpu_controller_nodes", "Nodes with GPUs, by pool and by what is first in their way: "+
	"OutOfService, NotReady, Cordoned, NotAdmitted, Suspect; Ready for none.", []string{"pool", "state"}, nil)

// Describe implements [prometheus.Collector].
func (Census) Describe(out chan<- *prometheus.Desc) { out <- censusOf }

// cacheTimeout bounds the wait for the cache.
const cacheTimeout = 2 * time.Second

// mostPools is how many pools have their own label, those with the most nodes.
const mostPools = 200

// Collect implements [prometheus.Collector]. It counts nothing before the cache has synced.
func (c Census) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), cacheTimeout)
	defer cancel()
	var list corev1.NodeList
	if c.Nodes.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	sizes := map[string]int64{}
	for i := range list.Items {
		if node := &list.Items[i]; HasGPUs(node) {
			sizes[gpu.PoolOf(node)]++
		}
	}
	called := bounded.Names(sizes, mostPools)
	type key struct{ pool, state string }
	counts := map[key]int{}
	for i := range list.Items {
		if node := &list.Items[i]; HasGPUs(node) {
			counts[key{called[gpu.PoolOf(node)], stateOf(node)}]++
		}
	}
	for key, number := range counts {
		out <- prometheus.MustNewConstMetric(censusOf, prometheus.GaugeValue, float64(number), key.pool, key.state)
	}
}

// stateOf returns the first reason why a node gets no pods, from a closed set.
func stateOf(node *corev1.Node) string {
	has := map[nodestate.Code]bool{}
	for _, state := range nodestate.StatesOf(node, nil) {
		has[state.Code] = true
	}
	switch {
	case has[nodestate.OutOfService]:
		return string(nodestate.OutOfService)
	case !fit.IsReady(node):
		return "NotReady"
	case node.Spec.Unschedulable:
		return "Cordoned"
	case has[nodestate.NotAdmitted]:
		return string(nodestate.NotAdmitted)
	case has[nodestate.Suspect]:
		return string(nodestate.Suspect)
	}
	return "Ready"
}

package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
)

// TestReplicasThatAskForNoSpreadingAreSpread over zones, as stock does by default to those of a Service: also where there are so many nodes that
// not all of them are tried, whichever way these are named.
func TestReplicasThatAskForNoSpreadingAreSpread(t *testing.T) {
	const replicas = 30
	for name, tc := range map[string]struct {
		nodes, zones int
		zoneOf       func(i int) int
	}{
		"zones in turn":            {nodes: 300, zones: 3, zoneOf: func(i int) int { return i % 3 }},
		"one node of ten is tried": {nodes: 1000, zones: 5, zoneOf: func(i int) int { return i % 5 }},
		"one zone after another":   {nodes: 1000, zones: 5, zoneOf: func(i int) int { return i / 200 }},
		"a zone of few nodes":      {nodes: 300, zones: 2, zoneOf: func(i int) int { return min(1, i/30) }},
		"all nodes are tried":      {nodes: 60, zones: 3, zoneOf: func(i int) int { return i % 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			zones, nodes := map[string]string{}, []*corev1.Node{gpuNode("gpus", "pcie")}
			for i := range tc.nodes {
				node := cpuNode(fmt.Sprintf("n%04d", i))
				zones[node.Name] = fmt.Sprint("zone-", tc.zoneOf(i))
				node.Labels = map[string]string{corev1.LabelHostname: node.Name, corev1.LabelTopologyZone: zones[node.Name]}
				nodes = append(nodes, node)
			}
			c := newCluster(t, nodes...)
			plugins.Wrap(c.scheduler, plugins.Options{})
			services := c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Services().Informer().GetIndexer()
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
			if err := services.Add(service); err != nil {
				t.Fatal(err)
			}
			count, hosts := make(map[string]int, tc.zones), map[string]int{}
			for i := range replicas {
				host := c.place(pod(fmt.Sprint("web-", i), "100m", "").Label("app", "web"))
				count[zones[host]]++
				hosts[host]++
			}
			for i := range tc.zones {
				if got, want := count[fmt.Sprint("zone-", i)], replicas/tc.zones; got != want {
					t.Errorf("%d of %d replicas are in a zone of %d, want %d: %v", got, replicas, tc.zones, want, count)
				}
			}
			if len(hosts) < replicas {
				t.Errorf("%d replicas are on %d nodes, want one on each", replicas, len(hosts))
			}
		})
	}
}

// Package disruption takes running jobs their pods and nodes away, in every way that a cluster knows, and waits until
// they run again: a real control plane with its controllers, simulated nodes, and the scheduler of the manifests as a
// process of its own. What is tested here is what docs/disruptions.md promises.
package disruption

import (
	"testing"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// cluster is the one that all tests share. Each test has a pool of its own in it.
var cluster = clustertest.Cluster{Fleet: clustertest.Pools(40, 3)}

func TestMain(m *testing.M) {
	cluster.Parallel()
	cluster.Main(m)
}

// Package gang tests jobs on several nodes from their YAML to their end: a real control plane with its controllers,
// simulated nodes, and the scheduler of the manifests as a process of its own.
package gang

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

const (
	nodeCount   = 2
	gpusPerNode = 8
	// rackedPool has nodes in racks.
	rackedPool = "racked"
)

// cluster is the one that all tests share, and use one after the other: two nodes, and six more in three racks of a pool of
// their own.
var cluster = clustertest.Cluster{Fleet: sandbox.Fleet{Groups: []sandbox.NodeGroup{clustertest.NodesWith8GPUs("gang", nodeCount), racked()}}}

func racked() sandbox.NodeGroup {
	racks := clustertest.NodesWith8GPUs("racked", 6)
	racks.Pool, racks.NodesPerRack = rackedPool, 2
	return racks
}

func TestMain(m *testing.M) { cluster.Main(m) }

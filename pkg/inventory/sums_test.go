package inventory

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestSumsOfAbsurdCapacitiesDoNotWrap: a kubelet may claim 2^63-1 GPUs, and the sums of its pool stay the largest that there are.
func TestSumsOfAbsurdCapacitiesDoNotWrap(t *testing.T) {
	nodes := []*corev1.Node{
		fixture.Node("a").GPUs(math.MaxInt64, "T4").Obj(), fixture.Node("b").GPUs(math.MaxInt64, "T4").Obj(), fixture.Node("c").GPUs(8, "T4").Obj(),
	}
	s := &snapshot.Snapshot{}
	for _, node := range nodes {
		s.Nodes = append(s.Nodes, *node)
	}
	pool := Build(s).Pools[0]
	for what, sum := range map[string]GPUs{"the pool": pool.GPUs, "its type": pool.Types[0].GPUs} {
		if sum.Allocatable != math.MaxInt64 || sum.Free < 8 || sum.Unhealthy < 0 {
			t.Errorf("%s: %+v", what, sum)
		}
	}
	for place, stock := range gpuStock(s) {
		if stock.There != math.MaxInt64 || stock.Open != math.MaxInt64 || stock.Free < 8 {
			t.Errorf("the stock of %v for quotas: %+v", place, stock)
		}
	}
}

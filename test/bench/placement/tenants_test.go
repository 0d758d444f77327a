package placement

import (
	"math/rand"
	"reflect"
	"testing"

	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// TestPlansAreWhatThePolicyDoes makes the moves of plans one at a time, the node that is cleared being kept, and has the
// policy choose where each pod goes.
func TestPlansAreWhatThePolicyDoes(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	nodes := make([]trace.Node, 30)
	for i := range nodes {
		nodes[i] = trace.Node{Name: "n", GPUs: 8, MilliCPU: 40_000}
	}
	c := newTenants(nodes, FragmentationGradientDescent{Workload: NewWorkload([]trace.Pod{{GPUs: 1, MilliGPU: 500, MilliCPU: 4000}})})
	plans, chains := 0, 0
	var there []*tenant
	for range 3000 {
		pod := &trace.Pod{GPUs: 1, MilliGPU: 100 * (1 + random.Int63n(10)), MilliCPU: 1000 * (1 + random.Int63n(8))}
		if random.Intn(20) == 0 {
			pod = &trace.Pod{GPUs: 8, MilliGPU: 1000, MilliCPU: 24_000}
		}
		arrived := c.arrive(pod)
		if arrived.placed() {
			there = append(there, arrived)
		} else {
			for range random.Intn(3) {
				c.leave(there[0])
				there = there[1:]
			}
		}
		if arrived.placed() || pod.GPUs == 1 {
			continue
		}
		before := freeOf(c)
		plan, ok := moves.Find(c, arrived, moves.Limits{Moves: 10, Tries: 1 << 14})
		if after := freeOf(c); !reflect.DeepEqual(before, after) {
			t.Fatal("looking for a plan has changed the cluster")
		}
		if !ok {
			continue
		}
		plans++
		made := map[int]bool{} // nodes where a pod was displaced, for one that the policy might put elsewhere by now
		for _, move := range plan.Moves {
			if move.From != plan.Node {
				chains++
				made[move.From] = true
			}
			c.leave(move.Pod)
			if !c.FitsOn(move.Pod, move.To) {
				t.Fatalf("there is no room on node %d when a pod is to go there: %+v", move.To, plan)
			}
			if at, _ := c.choose(move.Pod.pod, move.From); move.From == plan.Node && !made[move.To] && at != move.To {
				t.Errorf("the policy would put a pod on node %d, and the plan says %d", at, move.To)
			}
			c.enter(move.Pod, move.To)
		}
		if !c.FitsOn(arrived, plan.Node) {
			t.Fatalf("after the moves there is no room: %+v", plan)
		}
	}
	if plans == 0 || chains == 0 {
		t.Errorf("%d plans with %d pods that were displaced, want some", plans, chains)
	}
}

// freeOf is what is left of each node.
func freeOf(c *tenants) []Node {
	free := make([]Node, c.CountNodes())
	for i := range free {
		free[i] = c.Cluster.Nodes[i]
		free[i].Version = 0
	}
	return free
}

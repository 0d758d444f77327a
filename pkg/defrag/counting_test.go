package defrag

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestPlanAgreesWithCounting compares the number of moves with that of a brute-force search that only counts GPUs, and
// has nobody displaced, on random clusters. It makes the moves one at a time.
func TestPlanAgreesWithCounting(t *testing.T) {
	random := newRandom(t)
	helped := 0
	for range 300 {
		var facts Facts
		free := map[string]int64{}
		facts.Now = now
		for i := range 2 + random.IntN(4) {
			node := fmt.Sprintf("n%d", i)
			facts.Nodes = append(facts.Nodes, nodesOf8(node)...)
			free[node] = 8
			for j := 0; j < 8 && random.IntN(4) > 0; j++ {
				if gpus := int64(1 + random.IntN(3)); gpus <= free[node] {
					facts.Running = append(facts.Running, running(fmt.Sprintf("%s-%d", node, j), node, gpus))
					free[node] -= gpus
				}
			}
		}
		asked := int64(4 + random.IntN(5))
		facts.Waiting = []corev1.Pod{waiting("big", asked)}
		want := fewestMoves(&facts, free, asked)
		advice := Plan(&facts, DefaultLimits)
		switch {
		case len(advice.Proposals) == 0 && want >= 0:
			t.Errorf("%v free, %d asked: no advice, and %d moves are enough", free, asked, want)
		case len(advice.Proposals) == 1 && want >= 0 && len(advice.Proposals[0].Moves) > want:
			t.Errorf("%v free, %d asked: %v, want %d moves", free, asked, summary(advice), want)
		case len(advice.Proposals) == 1:
			helped += len(advice.Proposals[0].Moves)
			carryOut(t, advice.Proposals[0], free, asked)
		}
	}
	if helped == 0 {
		t.Error("no cluster needed a move")
	}
}

// fewestMoves is the least number of pods, up to the limit, that leave one node for others so that the asked GPUs are
// free; -1 if there is none. Each goes to the fullest node that takes it, the largest first.
func fewestMoves(facts *Facts, free map[string]int64, asked int64) int {
	best := -1
	for node := range free {
		var pods []int64
		for i := range facts.Running {
			if facts.Running[i].Spec.NodeName == node {
				quantity := facts.Running[i].Spec.Containers[0].Resources.Requests[names.ResourceGPU]
				pods = append(pods, quantity.Value())
			}
		}
		for set := range 1 << len(pods) {
			var moved []int64
			sum := free[node]
			for i, gpus := range pods {
				if set>>i&1 == 1 {
					moved, sum = append(moved, gpus), sum+gpus
				}
			}
			if sum < asked || len(moved) > DefaultLimits.Moves || (best >= 0 && len(moved) >= best) {
				continue
			}
			if packs(moved, free, node) {
				best = len(moved)
			}
		}
	}
	return best
}

func packs(moved []int64, free map[string]int64, but string) bool {
	var room []int64
	for node, gpus := range free {
		if node != but {
			room = append(room, gpus)
		}
	}
	slices.Sort(moved)
	for _, gpus := range slices.Backward(moved) {
		slices.Sort(room)
		at := slices.IndexFunc(room, func(r int64) bool { return r >= gpus })
		if at < 0 {
			return false
		}
		room[at] -= gpus
	}
	return true
}

// carryOut makes the moves one at a time, and then places the pod.
func carryOut(t *testing.T, proposal Proposal, free map[string]int64, asked int64) {
	t.Helper()
	for _, move := range proposal.Moves {
		if free[move.To] -= move.GPUs; free[move.To] < 0 {
			t.Fatalf("%s has no room for %s: %v", move.To, move.Pod, proposal)
		}
		free[move.From] += move.GPUs
	}
	if free[proposal.Node] < asked {
		t.Fatalf("%s has %d GPUs free after the moves, want %d: %v", proposal.Node, free[proposal.Node], asked, proposal)
	}
}

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

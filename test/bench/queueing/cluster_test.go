package queueing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// clusterOf is a cluster of one rack with so many GPUs free on each node.
func clusterOf(free ...int) *Cluster {
	c := NewCluster(len(free), 1)
	for node, gpus := range free {
		c.set(node, gpus)
	}
	return c
}

func TestBestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		free []int
		gpus int
		want []int
	}{
		"the tightest node wins":                         {free: []int{8, 5, 3, 4}, gpus: 3, want: []int{2}},
		"of equal nodes the first wins":                  {free: []int{8, 4, 4}, gpus: 2, want: []int{1}},
		"a whole node is opened when no part is enough":  {free: []int{2, 8, 8}, gpus: 3, want: []int{1}},
		"a gang takes whole nodes":                       {free: []int{8, 7, 8, 8}, gpus: 16, want: []int{0, 2}},
		"the rest of a gang fits where others are":       {free: []int{8, 8, 6, 4}, gpus: 12, want: []int{0, 3}},
		"the rest of a gang never shares with the whole": {free: []int{8, 3, 8}, gpus: 12, want: []int{0, 2}},
		"enough GPUs, but scattered":                     {free: []int{7, 7, 7}, gpus: 8},
		"room for the whole but not for the rest":        {free: []int{8, 3}, gpus: 12},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := clusterOf(tc.free...).BestFit(trace.NewGang(tc.gpus))
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want != nil) {
				t.Errorf("nodes (-want +got), found %t:\n%s", ok, diff)
			}
		})
	}
}

// TestClusterAgreesWithALookAtEveryNode binds and frees at random, and compares each answer with the plain one.
func TestClusterAgreesWithALookAtEveryNode(t *testing.T) {
	t.Run("the first of equal nodes", func(t *testing.T) {
		agree(t, NewCluster(130, 4)) // three words of the sets
	})
	t.Run("any of equal nodes", func(t *testing.T) {
		c := NewCluster(130, 4)
		c.BreakTies(7)
		agree(t, c)
	})
}

func agree(t *testing.T, c *Cluster) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	free := slices.Repeat([]int{trace.GPUsPerNode}, c.Nodes())
	type bound struct {
		gang  trace.Gang
		nodes []int
	}
	var all []bound
	for range 10_000 {
		gang := trace.NewGang([]int{1, 2, 3, 4, 7, 8, 12, 16, 20, 64}[random.IntN(10)])
		nodes, ok := c.BestFit(gang)
		if ok != plainFits(free, gang) || c.Fits(gang) != ok {
			t.Fatalf("%+v fits: %t, want the contrary, on %v", gang, ok, free)
		}
		if ok {
			checkRest(t, free, gang, nodes)
			for pod, node := range nodes {
				c.set(node, c.Free(node)-gang.GPUsOfPod(pod))
				free[node] -= gang.GPUsOfPod(pod)
			}
			all = append(all, bound{gang, nodes})
		}
		for len(all) > 0 && random.IntN(100) < 60-c.Idle()/10 {
			i := random.IntN(len(all))
			c.release(all[i].gang, all[i].nodes)
			for pod, node := range all[i].nodes {
				free[node] += all[i].gang.GPUsOfPod(pod)
			}
			all = slices.Delete(all, i, i+1)
		}
		if !slices.Equal(free, c.free) {
			t.Fatalf("free GPUs by node (-want +got):\n%s", cmp.Diff(free, c.free))
		}
	}
}

func plainFits(free []int, gang trace.Gang) bool {
	whole, part := 0, false
	for _, gpus := range free {
		if gpus == trace.GPUsPerNode {
			whole++
		}
		part = part || gang.Rest <= gpus && gpus < trace.GPUsPerNode
	}
	return whole > gang.Whole || whole == gang.Whole && (gang.Rest == 0 || part)
}

// checkRest asks that every pod has room, and that no node would have been a tighter one for the last.
func checkRest(t *testing.T, free []int, gang trace.Gang, nodes []int) {
	t.Helper()
	for pod, node := range nodes {
		if slices.Contains(nodes[:pod], node) || free[node] < gang.GPUsOfPod(pod) {
			t.Fatalf("%+v is put on %v, node %d twice or with %d GPUs free", gang, nodes, node, free[node])
		}
	}
	if gang.Rest == 0 {
		return
	}
	left := free[nodes[len(nodes)-1]]
	for node, gpus := range free {
		if gpus >= gang.Rest && gpus < left {
			t.Fatalf("the rest of %+v is put where %d are free, and node %d has %d", gang, left, node, gpus)
		}
	}
}

func TestBreakTiesChoosesAmongEqualNodesBySeed(t *testing.T) {
	chosen := func(seed uint64) int {
		c := clusterOf(3, 8, 8, 8, 8, 8, 8, 8)
		c.BreakTies(seed)
		nodes, _ := c.BestFit(trace.NewGang(8))
		return nodes[0]
	}
	seen := map[int]bool{}
	for seed := range uint64(20) {
		first, again := chosen(seed), chosen(seed)
		if first != again {
			t.Errorf("seed %d chooses node %d and then node %d", seed, first, again)
		}
		seen[first] = true
	}
	if len(seen) < 4 || seen[0] {
		t.Errorf("20 seeds choose the nodes %v, want several of 1 to 7", seen)
	}
}

func TestRacksAreOfEqualSize(t *testing.T) {
	c := NewCluster(10, 4)
	count := make([]int, 4)
	for node := range c.Nodes() {
		count[c.Rack(node)]++
	}
	if diff := cmp.Diff([]int{3, 2, 3, 2}, count); diff != "" {
		t.Errorf("nodes by rack (-want +got):\n%s", diff)
	}
	if got := c.racks([]int{0, 1, 9}); got != 2 {
		t.Errorf("nodes 0, 1 and 9 are of %d racks, want 2", got)
	}
}

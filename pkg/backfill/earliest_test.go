package backfill

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/topology"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func after(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// TestEarliestIsTheFirst of all times at which a gang fits, found by trying each of them in turn.
func TestEarliestIsTheFirst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 2_000 {
		nodes := make([]topology.Node, 1+random.IntN(6))
		free, ends := make([]int, len(nodes)), map[int][]time.Time{}
		tree, _ := topology.New(nil, 0, nodes)
		for node := range nodes {
			free[node] = random.IntN(3)
			for range random.IntN(4) {
				ends[node] = append(ends[node], after(random.IntN(10)))
			}
			slices.SortFunc(ends[node], time.Time.Compare)
		}
		p := Problem{
			Problem: gangplan.Problem{Tree: tree, Roles: []int{1 + random.IntN(8)}, Level: -1}, Ends: ends, Latest: after(random.IntN(10)),
			RoomAfter: func(node, _ int, _ []int, gone int) int { return free[node] + gone },
		}
		var want time.Time
		for minute := 0; minute < 10 && want.IsZero(); minute++ {
			room := 0
			for node := range nodes {
				room += free[node] + CountGone(ends[node], after(minute))
			}
			ends := slices.ContainsFunc(p.endTimes(), after(minute).Equal)
			if ends && room >= p.Roles[0] && !after(minute).After(p.Latest) {
				want = after(minute)
			}
		}
		at, plan := EarliestStart(p)
		if !at.Equal(want) || (plan == nil) != want.IsZero() {
			t.Fatalf("%d members fit at %s, want %s: free %v, ends %v", p.Roles[0], at, want, free, ends)
		}
		if plan != nil {
			found++
		}
	}
	if found < 500 {
		t.Errorf("only %d of the gangs fit at all: that proves little", found)
	}
}

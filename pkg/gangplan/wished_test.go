package gangplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSegmentsLieTogetherForThoseWhoLeaveAnyway: for segments that only should lie in one rack others leave than else where they lose no
// more, and nobody whom the gang could do without.
func TestSegmentsLieTogetherForThoseWhoLeaveAnyway(t *testing.T) {
	full := func(losses ...int64) *crowd { // racks of two nodes, each held by one unit
		c := &crowd{fabric: newFabric(2, 1, slices.Repeat([]int{8}, len(losses))...)}
		for node, loss := range losses {
			c.add(0, loss, 8, node)
		}
		return c
	}
	tests := map[string]struct {
		crowd     *crowd
		members   int
		want      string
		segmented bool
	}{
		"all lose the same":           {full(10, 10, 10, 10), 2, "[2 3]", true},
		"one rack has too few":        {func() *crowd { c := full(10, 10, 10, 10); c.units[3].Priority = 9; return c }(), 2, "[0 1]", true},
		"it would cost more":          {full(10, 90, 90, 10), 2, "[0 3]", false},
		"two segments":                {full(10, 10, 10, 10, 10, 10), 4, "[2 3 4 5]", true},
		"a room that is there":        {func() *crowd { c := full(10, 10, 10, 10); c.units, c.free[3] = c.units[:3], 8; return c }(), 2, "[2]", true},
		"room for all, though apart":  {func() *crowd { c := full(10, 10, 10, 10); c.free[0], c.free[2] = 8, 8; return c }(), 2, "[]", false},
		"a segment for each, anyhow":  {full(30, 20, 10, 40), 1, "[2]", true},
		"the same, whatever it costs": {full(1, 2, 1, 2, 1, 2), 6, "[0 1 2 3 4 5]", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := preferring(tc.crowd, tc.members, 8, 2)
			victims, plan := SelectVictims(e)
			got := fmt.Sprint(victims)
			if plan == nil {
				got = "none"
			}
			if got != tc.want || plan != nil && plan.Segmented != tc.segmented {
				t.Errorf("evicted %s, segmented %t, want %s, %t", got, plan != nil && plan.Segmented, tc.want, tc.segmented)
			}
		})
	}
}

// preferring is a gang whose segments should lie in one rack each.
func preferring(c *crowd, members, size, segment int) Eviction {
	e := c.eviction([]int{members}, []int{size})
	e.Problem = inSegments(e.Problem, inRack, segment)
	e.Segments.Preferred = true
	return e
}

// TestNobodyLeavesForAWish: in random clusters small enough to try all sets of victims, those that are chosen for segments which only should
// lie together lose no more than those that would be chosen without, none could stay, and where some lie together for the same that is found
// in nearly all cases.
func TestNobodyLeavesForAWish(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 22))
	var could, do, lost, least int64
	for range 3_000 {
		c := &crowd{fabric: newFabric(2, 1, slices.Repeat([]int{8}, 4+random.IntN(3))...)}
		for node := range c.free {
			for c.free[node] > 0 && len(c.units) < 9 && random.IntN(5) > 0 {
				c.add(int32(random.IntN(2)), int64(1+random.IntN(3)), min(c.free[node], 4+4*random.IntN(2)), node)
			}
		}
		e := preferring(c, 2+random.IntN(4), 4+4*random.IntN(2), 2)
		victims, plan := SelectVictims(e)
		loose := e
		loose.Segments = nil
		without, _ := SelectVictims(loose)
		best, possible := fewest(e)
		if possible != (plan != nil) {
			t.Fatalf("a plan: %t, and there is one: %t", plan != nil, possible)
		}
		if plan == nil || len(victims) == 0 {
			continue
		}
		for i := range victims {
			if stays := slices.Delete(slices.Clone(victims), i, i+1); fitsWithout(e, stays) {
				t.Fatalf("%v are enough, and %v are evicted", stays, victims)
			}
		}
		cost := costOf(e, victims)
		if cost.compareCost(costOf(e, without)) > 0 {
			t.Fatalf("%v leave for a wish, and %v would do", victims, without)
		}
		lost, least = lost+cost.loss, least+best.loss
		if couldBeTogether(e, cost) {
			could++
			if plan.Segmented {
				do++
			}
		} else if plan.Segmented {
			t.Fatalf("%v have the segments lie together, which none of their cost do", victims)
		}
	}
	t.Logf("for the same cost segments could lie together %d times, and do %d times; %d is lost, at least %d", could, do, lost, least)
	if could < 500 || do*100 < could*95 || lost*100 > least*110 {
		t.Errorf("they lie together %d times of %d, and %d is lost of at least %d", do, could, lost, least)
	}
}

func costOf(e Eviction, victims []int) candidateSet {
	t := candidateSet{units: victims}
	for _, unit := range victims {
		t.loss, t.priority = t.loss+e.Units[unit].Loss, max(t.priority, e.Units[unit].Priority)
	}
	return t
}

// couldBeTogether tries all sets of units that cost no more.
func couldBeTogether(e Eviction, cost candidateSet) bool {
	strict := e
	segments := *e.Segments
	segments.Preferred = false
	strict.Segments = &segments
	for set := range 1 << len(e.Units) {
		var victims []int
		for unit := range e.Units {
			if set>>unit&1 == 1 {
				victims = append(victims, unit)
			}
		}
		if len(victims) > 0 && costOf(e, victims).compareCost(cost) <= 0 && fitsWithout(strict, victims) {
			return true
		}
	}
	return false
}

package gangplan

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/ptr"
)

// TestTwoRolesFindWhoLeaves: a gang of a launcher and a worker that each take a whole node has both jobs evicted that are on the two nodes.
func TestTwoRolesFindWhoLeaves(t *testing.T) {
	c := &crowd{fabric: newFabric(2, 2, 8, 8)}
	c.add(0, 10, 8, 0)
	c.add(0, 20, 8, 1)
	e := c.eviction([]int{1, 1}, []int{8, 8})
	e.Level = -1
	if victims, plan := SelectVictims(e); plan == nil || !slices.Equal(victims, []int{0, 1}) {
		t.Errorf("%v are evicted, and there is a plan: %t; want [0 1]", victims, plan != nil)
	}
}

// TestFourRacksWithRoomForOneRoleDoNotHideTheFifth: racks in which only one node can be made free do not use up the tries.
func TestFourRacksWithRoomForOneRoleDoNotHideTheFifth(t *testing.T) {
	c := &crowd{fabric: newFabric(2, 2, slices.Repeat([]int{8}, 10)...)}
	for rack := range 5 {
		c.add(0, int64(10+rack), 8, 2*rack)
		if rack < 4 {
			c.free[2*rack+1] = 0 // held by those who may not be evicted
		} else {
			c.add(0, 20, 8, 2*rack+1)
		}
	}
	e := c.eviction([]int{1, 1}, []int{8, 8})
	e.Level = 1
	if victims, plan := SelectVictims(e); plan == nil || !slices.Equal(victims, []int{4, 5}) {
		t.Errorf("%v are evicted, and there is a plan: %t; want [4 5]", victims, plan != nil)
	}
}

// randomCrowd is a few nodes with random units on them, some of which budgets count.
func randomCrowd(random *rand.Rand, nodes, units, budgets int) *crowd {
	c := &crowd{fabric: newFabric(1+random.IntN(3), 1+random.IntN(2), slices.Repeat([]int{8}, nodes)...)}
	for range random.IntN(units) {
		holds, on := 1+random.IntN(8), []int{}
		for node := range c.free {
			if c.free[node] >= holds && random.IntN(3) == 0 {
				on = append(on, node)
			}
		}
		if len(on) == 0 {
			continue
		}
		c.add(int32(random.IntN(2)), int64(1+random.IntN(100)), holds, on...)
		for budget := range budgets {
			if random.IntN(2) == 0 {
				last := &c.units[len(c.units)-1]
				last.Spends = append(last.Spends, Spend{budget, len(on)})
			}
		}
	}
	for node := range c.free { // held by those who may not be evicted
		c.free[node] -= random.IntN(1 + c.free[node]/3)
	}
	return c
}

// randomGang has so many roles, of which it returns how much of a node their members take.
func randomGang(random *rand.Rand, c *crowd, roles int) (e Eviction, sizes []int) {
	counts := make([]int, roles)
	sizes = make([]int, roles)
	for role := range counts {
		counts[role], sizes[role] = 1+random.IntN(4)/roles*2+random.IntN(2), 1+random.IntN(8)
	}
	e = c.eviction(counts, sizes)
	e.Level = random.IntN(2)*2 - 1
	return e, sizes
}

// TestNoWayToEvictIsMissed compares gangs of one to four roles with all sets of victims and all ways to place the members, without
// disruption budgets and with some: whenever others can make room they do, those of the lowest priority, they lose at most a tenth more than
// the fewest do, none of them could stay, and the gang has places for all.
func TestNoWayToEvictIsMissed(t *testing.T) {
	random := rand.New(rand.NewPCG(31, 32))
	for roles := 1; roles <= 4; roles++ {
		for budgets := range 3 {
			var lost, least int64
			possible, higher := 0, 0
			for range 700 {
				c := randomCrowd(random, 2+random.IntN(4), 9, budgets)
				e, sizes := randomGang(random, c, roles)
				for range budgets {
					e.Budgets = append(e.Budgets, random.IntN(4))
				}
				victims, plan := SelectVictims(e)
				if c.seats(e, sizes, nil) {
					if plan == nil || len(victims) > 0 {
						t.Fatalf("%d roles: it has room, and %v are evicted; a plan: %t", roles, victims, plan != nil)
					}
					continue
				}
				best, could := c.fewest(e, sizes)
				if could != (plan != nil) {
					t.Fatalf("%d roles, %d budgets: a plan: %t, and there is one: %t, by %v", roles, budgets, plan != nil, could, best.units)
				}
				if plan == nil {
					continue
				}
				possible++
				c.check(t, e, sizes, victims, plan)
				cost := costOf(e, victims)
				lost, least = lost+cost.loss, least+best.loss
				if cost.priority > best.priority {
					higher++
				}
			}
			t.Logf("%d roles, %d budgets: %d evictions lose %d, at least %d; %d are of a priority that could stay", roles, budgets, possible, lost, least, higher)
			if possible < 50 || lost*100 > least*110 || higher > 0 {
				t.Errorf("%d roles, %d budgets: %d evictions lose %d, want at most 1.1 times %d; %d are of a priority that could stay", roles, budgets, possible, lost, least, higher)
			}
		}
	}
}

// check reports what is wrong with an eviction.
func (c *crowd) check(t *testing.T, e Eviction, sizes, victims []int, plan *Plan) {
	t.Helper()
	left := slices.Clone(e.Budgets)
	room := slices.Clone(c.free)
	for _, unit := range victims {
		if !spendBudgets(left, e.Units[unit].Spends, 1) {
			t.Fatalf("%v are evicted, which a budget does not allow", victims)
		}
		for _, node := range e.Units[unit].Nodes {
			room[node] += c.holds[unit]
		}
	}
	var all []int
	for role, places := range plan.Places {
		if len(places) != e.Roles[role] {
			t.Fatalf("%d members of role %d have places, want %d", len(places), role, e.Roles[role])
		}
		for _, node := range places {
			room[node] -= sizes[role]
		}
		all = append(all, places...)
	}
	if slices.Min(room) < 0 {
		t.Fatalf("the members do not fit on %v when %v are gone", plan.Places, victims)
	}
	if e.Level >= 0 && c.tree.CommonDomain(all).Level < e.Level {
		t.Fatalf("the members lie on %v, in several racks", plan.Places)
	}
	for i := range victims {
		if stays := slices.Delete(slices.Clone(victims), i, i+1); c.seats(e, sizes, stays) {
			t.Fatalf("%v are enough, and %v are evicted", stays, victims)
		}
	}
}

// seats tries all ways to place the members when some units are gone.
func (c *crowd) seats(e Eviction, sizes, victims []int) bool {
	room := slices.Clone(c.free)
	for _, unit := range victims {
		for _, node := range e.Units[unit].Nodes {
			room[node] += c.holds[unit]
		}
	}
	var members []int
	for role, count := range e.Roles {
		members = append(members, slices.Repeat([]int{sizes[role]}, count)...)
	}
	slices.SortFunc(members, func(a, b int) int { return cmp.Compare(b, a) })
	domains := [][]int{c.tree.Root.Nodes}
	if e.Level >= 0 {
		domains = nil
		for _, domain := range c.tree.DomainsAt(e.Level) {
			domains = append(domains, domain.Nodes)
		}
	}
	return slices.ContainsFunc(domains, func(nodes []int) bool { return placeAll(members, room, nodes) })
}

func placeAll(members, room, nodes []int) bool {
	if len(members) == 0 {
		return true
	}
	tried := map[int]bool{}
	for _, node := range nodes {
		if room[node] < members[0] || tried[room[node]] {
			continue
		}
		tried[room[node]] = true
		room[node] -= members[0]
		fits := placeAll(members[1:], room, nodes)
		if room[node] += members[0]; fits {
			return true
		}
	}
	return false
}

// fewest tries all sets of units that budgets allow.
func (c *crowd) fewest(e Eviction, sizes []int) (best candidateSet, could bool) {
	for set := range 1 << len(e.Units) {
		var t candidateSet
		left, allowed := slices.Clone(e.Budgets), true
		for unit := range e.Units {
			if set>>unit&1 == 1 {
				t, allowed = t.withUnit(unit, &e.Units[unit]), spendBudgets(left, e.Units[unit].Spends, 1) && allowed
			}
		}
		if allowed && (!could || t.compareCost(best) < 0) && c.seats(e, sizes, t.units) {
			best, could = t, true
		}
	}
	return best, could
}

// TestASearchTakesFewSteps: what is asked of nodes, and how many steps are taken, grows with the units that may leave and not with their square,
// also for roles that compete, and where budgets are short.
func TestASearchTakesFewSteps(t *testing.T) {
	for _, roles := range [][]int{{32}, {1, 31}, {16, 16}, {1, 1, 2, 28}} {
		for _, nodes := range []int{100, 200, 400} {
			c, e := manySmall(nodes, roles)
			asked := 0
			without := e.RoomWithout
			e.RoomWithout = func(node, role int, beside []int, gone func(int) bool) int {
				asked++
				return without(node, role, beside, gone)
			}
			e.Steps = ptr.To(DefaultBudget)
			victims, plan := SelectVictims(e)
			if plan == nil || len(victims) != 8*32 {
				t.Fatalf("roles %v on %d nodes: %d are evicted, want %d", roles, nodes, len(victims), 8*32)
			}
			t.Logf("roles %v on %d nodes: a node is asked %d times, and %d steps are taken", roles, nodes, asked, DefaultBudget-*e.Steps)
			if most := 6 * len(c.units) * len(roles); asked > most {
				t.Errorf("roles %v on %d nodes: a node is asked %d times, want at most %d", roles, nodes, asked, most)
			}
		}
	}
}

// manySmall is nodes with 8 units each, and a gang whose members take a node.
func manySmall(nodes int, roles []int) (*crowd, Eviction) {
	random := rand.New(rand.NewPCG(13, uint64(nodes)))
	c := &crowd{fabric: newFabric(20, 4, slices.Repeat([]int{0}, nodes)...)}
	on := make([][]int, nodes)
	for node := range nodes {
		for range 8 {
			on[node] = append(on[node], len(c.units))
			c.units, c.holds = append(c.units, Unit{Loss: 1 + random.Int64N(1_000), Nodes: []int{node}}), append(c.holds, 1)
		}
	}
	e := c.eviction(roles, slices.Repeat([]int{8}, len(roles)))
	e.RoomWithout = func(node, _ int, beside []int, gone func(int) bool) int {
		room := c.free[node]
		for _, unit := range on[node] {
			if gone(unit) {
				room++
			}
		}
		for _, count := range beside {
			room -= 8 * count
		}
		return max(0, room/8)
	}
	return c, e
}

func BenchmarkVictimsOfRoles(b *testing.B) {
	for name, roles := range map[string][]int{"one": {32}, "launcher": {1, 31}, "halves": {16, 16}, "four": {1, 1, 2, 28}} {
		b.Run(name, func(b *testing.B) {
			_, e := manySmall(250, roles)
			for b.Loop() {
				e.Steps = ptr.To(DefaultBudget)
				if victims, _ := SelectVictims(e); len(victims) != 8*32 {
					b.Fatalf("%d victims", len(victims))
				}
			}
		})
	}
}

// TestNoWayToEvictForSegmentsOfRolesIsMissed: of two roles in segments, each in one rack, or only if that can be, others are evicted whenever there
// is a plan then, and lose little more than the fewest do.
func TestNoWayToEvictForSegmentsOfRolesIsMissed(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 42))
	possible := 0
	var lost, least int64
	for range 1_500 {
		c := randomCrowd(random, 4+random.IntN(3), 9, 0)
		e, _ := randomGang(random, c, 2)
		e.Level, e.Segments = -1, &Segments{Level: inRack, Preferred: random.IntN(2) == 0}
		for role, count := range e.Roles {
			for size := 1 + random.IntN(2); count > 0; count -= size {
				e.Segments.All = append(e.Segments.All, Segment{Role: role, Count: min(size, count), Beside: -1})
			}
		}
		if fitsWithout(e, nil) {
			continue
		}
		best, could := fewest(e)
		victims, plan := SelectVictims(e)
		if could != (plan != nil) {
			t.Fatalf("a plan: %t, and there is one: %t, by %v", plan != nil, could, best.units)
		}
		if plan == nil {
			continue
		}
		possible++
		if !fitsWithout(e, victims) {
			t.Fatalf("%v leave, and there is no plan then", victims)
		}
		for i := range victims {
			if stays := slices.Delete(slices.Clone(victims), i, i+1); fitsWithout(e, stays) {
				t.Fatalf("%v are enough, and %v are evicted", stays, victims)
			}
		}
		lost, least = lost+costOf(e, victims).loss, least+best.loss
	}
	t.Logf("%d evictions lose %d, at least %d", possible, lost, least)
	if possible < 200 || lost*100 > least*110 {
		t.Errorf("%d evictions lose %d, want at most 1.1 times %d", possible, lost, least)
	}
}

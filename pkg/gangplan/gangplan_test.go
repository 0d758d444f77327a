package gangplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// fabric has nodes in racks of some size, and racks in zones. The last part of a node is the room for one member.
type fabric struct {
	tree *topology.Tree
	free []int
}

// newFabric has a node for each amount of room: so many in a rack, and so many racks in a zone.
func newFabric(perRack, perZone int, free ...int) *fabric {
	nodes := make([]topology.Node, len(free))
	for i := range free {
		nodes[i] = topology.Node{Name: fmt.Sprintf("n%04d", i), Labels: map[string]string{
			topology.Rack.Key: fmt.Sprintf("r%03d", i/perRack), topology.Zone.Key: fmt.Sprintf("z%d", i/perRack/perZone),
		}}
	}
	tree, _ := topology.New(topology.Levels, -1, nodes)
	return &fabric{tree: tree, free: free}
}

// alike is a gang whose members fill the room of a node one by one, whatever their role.
func (f *fabric) alike(roles ...int) Problem {
	return Problem{Tree: f.tree, Roles: roles, Level: -1, Steps: ptr.To(DefaultBudget), Room: func(node, _ int, beside []int) int {
		room := f.free[node]
		for _, other := range beside {
			room -= other
		}
		return room
	}}
}

// sized is a gang whose members of a role take so much of a node each.
func (f *fabric) sized(counts, sizes []int) Problem {
	p := f.alike(counts...)
	p.Room = func(node, role int, beside []int) int {
		room := f.free[node]
		for other, count := range beside {
			room -= count * sizes[other]
		}
		return room / sizes[role]
	}
	return p
}

func TestWhereMembersGo(t *testing.T) {
	const rack = 1
	two := newFabric(2, 2, 8, 8, 8, 8, 4, 4, 8, 8) // four racks of two nodes, two in a zone
	required := func(p Problem, level int) Problem { p.Level = level; return p }
	standing := func(p Problem, nodes ...int) Problem { p.Standing = nodes; return p }
	tests := map[string]struct {
		problem Problem
		want    string
		miss    string
	}{
		"one node that is filled, before one that is not":    {problem: two.alike(4), want: "[[4 4 4 4]]"},
		"a node of the zone that is left with the least":     {problem: two.alike(2 * 4), want: "[[6 6 6 6 6 6 6 6]]"},
		"a rack that is filled":                              {problem: two.alike(16), want: "[[6 6 6 6 6 6 6 6 7 7 7 7 7 7 7 7]]"},
		"three whole nodes do not lie in three racks":        {problem: two.sized([]int{3}, []int{8}), want: "[[0 1 2]]"},
		"one rack has to hold them, and none does":           {problem: required(two.sized([]int{3}, []int{8}), rack), miss: "r000 2"},
		"one zone has to hold them":                          {problem: required(two.sized([]int{3}, []int{8}), 0), want: "[[0 1 2]]"},
		"beside those that stand":                            {problem: standing(two.sized([]int{1}, []int{8}), 7), want: "[[7]]"},
		"in the rack of those that stand, though it is full": {problem: standing(required(two.sized([]int{2}, []int{8}), rack), 4), miss: "r002 0"},
		"a launcher beside its workers":                      {problem: two.sized([]int{1, 1}, []int{4, 8}), want: "[[1] [0]]"},
		"the large ones first, though they are named last":   {problem: newFabric(2, 1, 8, 4).sized([]int{1, 1}, []int{4, 8}), want: "[[1] [0]]"},
		"a rack for both roles, though others are as tight":  {problem: newFabric(2, 1, 8, 2, 8, 4).sized([]int{1, 1}, []int{4, 8}), want: "[[3] [2]]"},
		"as many as there is room for, in the whole cluster": {problem: two.alike(56), want: fmt.Sprint([][]int{full(two)})},
		"one more than that":                                 {problem: two.alike(57), miss: " 56"},
		"nobody wants a place":                               {problem: two.alike(0), want: "[[]]"},
		"one domain of a level that no label names":          {problem: required(two.alike(1), 2), miss: "none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.problem.Level == 2 {
				tc.problem.Tree, tc.problem.Level = topology.New(topology.Levels, 2, nodesOf(two))
			}
			plan, miss := Make(tc.problem)
			got, near := "", "none"
			if plan != nil {
				got = fmt.Sprint(plan.Places)
			}
			if miss.Domain != nil {
				near = fmt.Sprint(miss.Domain.Name, " ", miss.Room)
			}
			if got != tc.want || plan == nil && near != tc.miss {
				t.Errorf("places %s, want %s; nearest %q, want %q", got, tc.want, near, tc.miss)
			}
		})
	}
}

func full(f *fabric) (places []int) {
	for node, room := range f.free {
		for range room {
			places = append(places, node)
		}
	}
	return places
}

func nodesOf(f *fabric) (nodes []topology.Node) {
	for i := range f.free {
		nodes = append(nodes, topology.Node{Name: fmt.Sprintf("n%04d", i)})
	}
	return nodes
}

// TestNoWayIsCloser compares plans of members that are alike with all ways to place them.
func TestNoWayIsCloser(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1_500 {
		free := make([]int, 1+random.IntN(6))
		room := 0
		for i := range free {
			free[i] = random.IntN(9)
			room += free[i]
		}
		if room == 0 {
			continue
		}
		f := newFabric(1+random.IntN(3), 1+random.IntN(2), free...)
		p := f.alike(1 + random.IntN(min(room, 64)))
		if random.IntN(3) == 0 {
			p.Standing = []int{random.IntN(len(free))}
		}
		s := newSearch(&p)
		plan, _ := Make(p)
		if plan == nil {
			t.Fatalf("no plan for %d in %v", p.Roles[0], free)
		}
		got := s.countCrossed(countsOf(plan, len(free)))
		if best := s.closest(0, p.Roles[0], map[int][]int{}); got != best {
			t.Fatalf("%d in %v beside %v: %v crosses %d, best is %d", p.Roles[0], free, p.Standing, plan.Places, got, best)
		}
	}
}

func countsOf(plan *Plan, nodes int) map[int][]int {
	counts := map[int][]int{}
	for node := range nodes {
		counts[node] = make([]int, len(plan.Places))
	}
	for role, places := range plan.Places {
		for _, node := range places {
			counts[node][role]++
		}
	}
	return counts
}

// closest tries all ways to place members of one role on the nodes from one on.
func (s *search) closest(node, members int, taken map[int][]int) int {
	if node == s.countNodes() {
		if members > 0 {
			return 1 << 40
		}
		return s.countCrossed(taken)
	}
	best := 1 << 40
	for n := range min(s.free[0][node], members) + 1 {
		taken[node] = []int{n}
		best = min(best, s.closest(node+1, members-n, taken))
	}
	delete(taken, node)
	return best
}

// TestPlansHold: whatever the roles and the budget, no node takes more than it has room for, all members have a place, and
// what has to lie in one domain does.
func TestPlansHold(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	plans := 0
	for range 5_000 {
		free := make([]int, 1+random.IntN(24))
		for i := range free {
			free[i] = random.IntN(9)
		}
		f := newFabric(1+random.IntN(4), 1+random.IntN(3), free...)
		counts, sizes := make([]int, 1+random.IntN(3)), make([]int, 3)
		for i := range counts {
			counts[i] = random.IntN(8)
		}
		for i := range sizes {
			sizes[i] = 1 + random.IntN(8)
		}
		p := f.sized(counts, sizes)
		p.Level = random.IntN(3) - 1
		p.Steps = ptr.To([]int{0, DefaultBudget}[random.IntN(2)])
		plan, miss := Make(p)
		if plan == nil {
			if len(counts) == 1 && miss.Room >= counts[0] {
				t.Fatalf("no plan, though %s has room for %d of %d", miss.Domain.Name, miss.Room, counts[0])
			}
			continue
		}
		plans++
		left := slices.Clone(free)
		var all []int
		for role, places := range plan.Places {
			if len(places) != counts[role] {
				t.Fatalf("%d of %d members have a place", len(places), counts[role])
			}
			for _, node := range places {
				left[node] -= sizes[role]
			}
			all = append(all, places...)
		}
		if slices.Min(left) < 0 {
			t.Fatalf("%v takes more than %v", plan.Places, free)
		}
		if p.Level >= 0 && len(all) > 0 && f.tree.CommonDomain(all).Level < p.Level {
			t.Fatalf("%v lies in several domains", plan.Places)
		}
	}
	if plans < 1_000 {
		t.Errorf("only %d plans", plans)
	}
}

// nvl72 is domains of 18 nodes, each with room for one member of 4 GPUs, of which some are taken.
func nvl72(domains int, taken func(node int) bool) *fabric {
	free := make([]int, 18*domains)
	for i := range free {
		if !taken(i) {
			free[i] = 1
		}
	}
	return newFabric(18, 8, free...)
}

// TestAnNVLinkDomainIsNotCrossed where it is required, however full the others are.
func TestAnNVLinkDomainIsNotCrossed(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		busy := random.Float64()
		f := nvl72(12, func(int) bool { return random.Float64() < busy })
		p := f.alike(1 + random.IntN(18))
		p.Level = 1
		plan, miss := Make(p)
		switch {
		case plan == nil && miss.Room >= p.Roles[0]:
			t.Fatalf("no plan for %d, though %s has room for %d", p.Roles[0], miss.Domain.Name, miss.Room)
		case plan != nil && plan.Domain.Level != 1 && p.Roles[0] > 0:
			t.Fatalf("%v lies in several domains", plan.Places)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 8))
	for name, size := range map[string]struct{ nodes, members, room int }{
		"512 pods of whole nodes on 1000 nodes": {1000, 512, 1},
		"512 pods of one GPU on 1000 nodes":     {1000, 512, 8},
		"512 pods on 20000 nodes":               {20_000, 512, 8},
		"8 pods on 1000 nodes":                  {1000, 8, 8},
	} {
		b.Run(name, func(b *testing.B) {
			free := make([]int, size.nodes)
			for i := range free {
				free[i] = random.IntN(size.room + 1)
			}
			for i := range size.members { // there is room
				free[i*size.nodes/size.members] = size.room
			}
			f := newFabric(18, 8, free...)
			for b.Loop() {
				if plan, _ := Make(f.alike(size.members)); plan == nil {
					b.Fatal("no plan")
				}
			}
		})
	}
}

// TestStepsAreSharedByPlans, and what is left goes to the one that they are enough for.
func TestStepsAreSharedByPlans(t *testing.T) {
	f := newFabric(2, 2, 8, 8, 8, 8)
	first, steps := f.alike(8), DefaultBudget
	first.Steps = &steps
	if plan, _ := Make(first); plan == nil || steps == DefaultBudget {
		t.Fatalf("%d steps are left of %d", steps, DefaultBudget)
	}
	steps = 1
	if plan, _ := Make(first); plan == nil || steps != 1 {
		t.Errorf("with one step there is a plan: %t, and %d are left", plan != nil, steps)
	}
}

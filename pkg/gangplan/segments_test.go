package gangplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/topology"
)

const (
	inZone = iota
	inRack
)

// inSegments divides the members of each role into segments of a size, of which the last may be smaller.
func inSegments(p Problem, level, size int) Problem {
	p.Segments = &Segments{Level: level}
	for role, members := range p.Roles {
		for ; members > 0; members -= size {
			p.Segments.All = append(p.Segments.All, Segment{Role: role, Count: min(size, members), Beside: -1})
		}
	}
	return p
}

func TestWhereSegmentsGo(t *testing.T) {
	two := newFabric(2, 2, 8, 8, 8, 8, 4, 4, 8, 8) // four racks of two nodes, two in a zone
	sized := func(f *fabric, count, size int) Problem { return f.sized([]int{count}, []int{size}) }
	beside := func(p Problem, segment, node int) Problem {
		p.Segments.All[segment].Beside = node
		p.Standing = append(p.Standing, node)
		return p
	}
	preferred := func(p Problem) Problem { p.Segments.Preferred = true; return p }
	tests := map[string]struct {
		problem Problem
		want    string
		miss    string
	}{
		"two racks of one zone":                          {problem: inSegments(sized(two, 4, 8), inRack, 2), want: "[[0 1 2 3]]"},
		"two segments in one rack, which is closer":      {problem: inSegments(sized(two, 4, 4), inRack, 2), want: "[[6 6 7 7]]"},
		"the rack of a whole segment stays whole":        {problem: inSegments(sized(newFabric(4, 4, 8, 8, 8, 8, 8, 8, 8, 0), 3, 8), inRack, 3), want: "[[4 5 6]]"},
		"the last one is smaller":                        {problem: inSegments(sized(two, 5, 8), inRack, 2), want: "[[0 1 2 3 6]]"},
		"the last one is where a whole one has no room":  {problem: inSegments(sized(newFabric(2, 1, 8, 0, 8, 8, 8, 8), 5, 8), inRack, 2), want: "[[2 3 4 5 0]]"},
		"no racks for all":                               {problem: inSegments(sized(two, 8, 8), inRack, 2), miss: "3 r000 0 of 2"},
		"racks for all members, but not for segments":    {problem: inSegments(sized(newFabric(2, 2, 8, 0, 8, 0, 8, 8), 4, 8), inRack, 2), miss: "1 r000 1 of 2"},
		"that is only preferred":                         {problem: preferred(inSegments(sized(newFabric(2, 2, 8, 0, 8, 0, 8, 8), 4, 8), inRack, 2)), want: "[[0 2 4 5]]"},
		"preferred, and there is room":                   {problem: preferred(inSegments(sized(newFabric(2, 1, 8, 8, 8, 0, 8, 8), 4, 8), inRack, 2)), want: "[[0 1 4 5]]"},
		"one segment for all is one rack":                {problem: inSegments(sized(two, 2, 8), inRack, 16), want: "[[6 7]]"},
		"one member each lies anywhere":                  {problem: inSegments(sized(two, 3, 8), inRack, 1), want: "[[0 1 2]]"},
		"beside a member of the second":                  {problem: beside(inSegments(sized(two, 3, 8), inRack, 2), 1, 3), want: "[[0 1 3]]"},
		"beside a member in a full rack":                 {problem: beside(inSegments(sized(newFabric(2, 2, 8, 0, 8, 8), 1, 8), inRack, 2), 0, 1), want: "[[0]]"},
		"beside a member in a rack that has no room":     {problem: beside(inSegments(sized(newFabric(2, 2, 0, 0, 8, 8), 1, 8), inRack, 2), 0, 1), miss: "0 r000 0 of 1"},
		"the first segment has the room that is its own": {problem: beside(inSegments(sized(newFabric(3, 1, 8, 8, 0, 8, 8, 8), 4, 8), inRack, 2), 1, 0), want: "[[3 4 0 1]]"},
		"a launcher beside workers in segments":          {problem: inSegments(two.sized([]int{1, 4}, []int{4, 8}), inRack, 2), want: "[[4] [0 1 2 3]]"},
		"in zones":                                       {problem: inSegments(sized(two, 6, 8), inZone, 4), want: "[[0 1 2 3 6 7]]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan, miss := Make(tc.problem)
			got, near := "", ""
			if plan != nil {
				got = fmt.Sprint(plan.Places)
				if plan.Segmented == (tc.problem.Segments.Preferred && !isDivided(&tc.problem, plan)) {
					t.Errorf("it says that its segments lie in one domain each: %t", plan.Segmented)
				}
			} else {
				near = fmt.Sprintf("%d %s %d of %d", miss.Segments, miss.Domain.Name, miss.Room, miss.Want)
			}
			if got != tc.want || near != tc.miss {
				t.Errorf("places %s, want %s; nearest %q, want %q", got, tc.want, near, tc.miss)
			}
		})
	}
}

// isDivided says whether each segment of a plan lies in one domain, with those of it that stand.
func isDivided(p *Problem, plan *Plan) bool {
	next := make([]int, len(p.Roles))
	for _, segment := range p.Segments.All {
		places := plan.Places[segment.Role][next[segment.Role]:][:segment.Count]
		next[segment.Role] += segment.Count
		domain := p.Tree.NodeDomain(places[0], p.Segments.Level)
		if segment.Beside >= 0 {
			domain = p.Tree.NodeDomain(segment.Beside, p.Segments.Level)
		}
		if slices.ContainsFunc(places, func(node int) bool { return p.Tree.NodeDomain(node, p.Segments.Level) != domain }) {
			return false
		}
	}
	return true
}

func TestNoLabelNamesTheDomainsOfSegments(t *testing.T) {
	f := newFabric(2, 2, 8, 8)
	p := inSegments(f.alike(2), inRack, 2)
	p.Tree, p.Segments.Level = topology.New(topology.Levels, 2, nodesOf(f))
	if plan, miss := Make(p); plan != nil || miss.Domain != nil || miss.Could {
		t.Errorf("plan %v, nearest %v", plan, miss)
	}
}

// TestNoWayToDivideIsCloser compares plans of members that are alike with all ways to place them in segments.
func TestNoWayToDivideIsCloser(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 22))
	plans, misses := 0, 0
	for range 3_000 {
		free := make([]int, 1+random.IntN(6))
		for i := range free {
			free[i] = random.IntN(7)
		}
		room := sumCounts(free)
		if room == 0 {
			continue
		}
		f := newFabric(1+random.IntN(3), 1+random.IntN(2), free...)
		members := 1 + random.IntN(min(room, 20))
		p := inSegments(f.alike(members), random.IntN(2), max(1+random.IntN(6), (members+4)/5)) // in five at most
		if random.IntN(3) == 0 {
			segment := random.IntN(len(p.Segments.All))
			p.Segments.All[segment].Beside = random.IntN(len(free))
			p.Standing = []int{p.Segments.All[segment].Beside}
		}
		s := newSearch(&p)
		best := s.closestDivided(0, p.Roles[0], map[int][]int{})
		plan, miss := Make(p)
		if plan == nil {
			misses++
			if best < farthest {
				t.Fatalf("no plan for %+v in %v, and one crosses %d", p.Segments, free, best)
			}
			if miss.Segments >= len(p.Segments.All) {
				t.Fatalf("no plan for %+v in %v, and room for %d segments", p.Segments, free, miss.Segments)
			}
			continue
		}
		plans++
		if got := s.countCrossed(countsOf(plan, len(free))); got != best || got != plan.Crossed || !isDivided(&p, plan) {
			t.Fatalf("%+v in %v: %v crosses %d, best is %d", p.Segments, free, plan.Places, got, best)
		}
	}
	if plans < 500 || misses < 200 {
		t.Errorf("%d plans, %d misses", plans, misses)
	}
}

const farthest = 1 << 40

// closestDivided tries all ways to place members of one role on the nodes from one on, of those that can be divided.
func (s *search) closestDivided(node, members int, taken map[int][]int) int {
	if node == s.countNodes() {
		inDomain := map[*topology.Domain]int{}
		for node, counts := range taken {
			inDomain[s.Tree.NodeDomain(node, s.Segments.Level)] += counts[0]
		}
		if members > 0 || !s.divides(s.Segments.All, inDomain) {
			return farthest
		}
		return s.countCrossed(taken)
	}
	best := farthest
	for n := range min(s.free[0][node], members) + 1 {
		taken[node] = []int{n}
		best = min(best, s.closestDivided(node+1, members-n, taken))
	}
	delete(taken, node)
	return best
}

// divides tries all ways to have segments make up so many members in each domain.
func (s *search) divides(segments []Segment, inDomain map[*topology.Domain]int) bool {
	if len(segments) == 0 {
		return true
	}
	for domain, members := range inDomain {
		if members < segments[0].Count || segments[0].Beside >= 0 && s.Tree.NodeDomain(segments[0].Beside, s.Segments.Level) != domain {
			continue
		}
		inDomain[domain] -= segments[0].Count
		found := s.divides(segments[1:], inDomain)
		if inDomain[domain] += segments[0].Count; found {
			return true
		}
	}
	return false
}

// TestSegmentsHold: whatever the roles, the sizes and the budget, no node takes more than it has room for, and each segment
// lies in one domain, unless that is only preferred.
func TestSegmentsHold(t *testing.T) {
	random := rand.New(rand.NewPCG(23, 24))
	divided, others := 0, 0
	for range 5_000 {
		free := make([]int, 1+random.IntN(24))
		for i := range free {
			free[i] = random.IntN(9)
		}
		f := newFabric(1+random.IntN(4), 1+random.IntN(3), free...)
		counts, sizes := make([]int, 1+random.IntN(3)), []int{1 + random.IntN(4), 1 + random.IntN(4), 1 + random.IntN(4)}
		p := f.sized(counts, sizes)
		p.Steps = ptr.To([]int{0, DefaultBudget}[random.IntN(2)])
		p.Segments = &Segments{Level: random.IntN(2), Preferred: random.IntN(2) == 0}
		for range 1 + random.IntN(5) {
			segment := Segment{Role: random.IntN(len(counts)), Count: 1 + random.IntN(4), Beside: -1}
			if random.IntN(6) == 0 {
				segment.Beside = random.IntN(len(free))
			}
			counts[segment.Role] += segment.Count
			p.Segments.All = append(p.Segments.All, segment)
		}
		plan, _ := Make(p)
		if plan == nil {
			preferred := p.Segments.Preferred
			if p.Segments = nil; preferred && hasPlan(p) {
				t.Fatal("no plan, though segments are only preferred")
			}
			continue
		}
		left := slices.Clone(free)
		for role, places := range plan.Places {
			if len(places) != counts[role] {
				t.Fatalf("%d of %d members have a place", len(places), counts[role])
			}
			for _, node := range places {
				left[node] -= sizes[role]
			}
		}
		if slices.Min(left) < 0 {
			t.Fatalf("%v takes more than %v", plan.Places, free)
		}
		if plan.Segmented {
			divided++
		} else {
			others++
		}
		if plan.Segmented && !isDivided(&p, plan) || !plan.Segmented && !p.Segments.Preferred {
			t.Fatalf("%+v: %v", p.Segments, plan.Places)
		}
	}
	if divided < 1_000 || others < 100 {
		t.Errorf("only %d plans in segments, %d others", divided, others)
	}
}

func hasPlan(p Problem) bool { plan, _ := Make(p); return plan != nil }

// TestSegmentsOfNVLinkDomains: a job of 32 nodes in segments of 16 starts as soon as two domains of 18 have room for one each,
// and never has one in two.
func TestSegmentsOfNVLinkDomains(t *testing.T) {
	random := rand.New(rand.NewPCG(25, 26))
	plans := 0
	for range 500 {
		busy := random.Float64() / 3
		f := nvl72(12, func(int) bool { return random.Float64() < busy })
		p := inSegments(f.alike(32), 1, 16)
		able := 0
		for _, domain := range f.tree.DomainsAt(1) {
			if newSearch(&p).roomIn(domain, 0, 18) >= 16 {
				able++
			}
		}
		plan, miss := Make(p)
		switch {
		case (plan != nil) != (able >= 2):
			t.Fatalf("a plan: %t, and %d domains have room for a segment", plan != nil, able)
		case plan == nil && (miss.Segments != able || miss.Want != 16 || miss.Room >= 16):
			t.Fatalf("%d domains have room for a segment; nearest %+v", able, miss)
		case plan != nil && !isDivided(&p, plan):
			t.Fatalf("%v", plan.Places)
		case plan != nil:
			plans++
		}
	}
	if plans < 100 || plans > 450 {
		t.Errorf("%d plans of 500", plans)
	}
}

// TestWhoIsEvictedForSegments: the gang has its places when the victims are gone, none of which could have stayed.
func TestWhoIsEvictedForSegments(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 28))
	var lost, least int64
	evictions := 0
	for range 3_000 {
		c := &crowd{fabric: newFabric(1+random.IntN(3), 1, slices.Repeat([]int{8}, 2+random.IntN(5))...)}
		for range random.IntN(9) {
			holds, nodes := 1+random.IntN(8), []int{}
			for node := range c.free {
				if c.free[node] >= holds && random.IntN(3) == 0 {
					nodes = append(nodes, node)
				}
			}
			if len(nodes) > 0 {
				c.add(int32(random.IntN(2)), int64(1+random.IntN(100)), holds, nodes...)
			}
		}
		e := c.eviction([]int{1 + random.IntN(6)}, []int{1 + random.IntN(8)})
		e.Problem = inSegments(e.Problem, inRack, 1+random.IntN(3))
		e.Segments.Preferred = random.IntN(4) == 0
		victims, plan := SelectVictims(e)
		best, possible := fewest(e)
		if possible != (plan != nil) {
			t.Fatalf("a plan: %t, and there is one: %t", plan != nil, possible)
		}
		if plan == nil || len(victims) == 0 {
			continue
		}
		evictions++
		for i := range victims {
			if stays := slices.Delete(slices.Clone(victims), i, i+1); fitsWithout(e, stays) {
				t.Fatalf("%v are enough, and %v are evicted", stays, victims)
			}
		}
		if top := highest(e, victims); top != best.priority {
			t.Fatalf("evicts priority %d, and %d would do", top, best.priority)
		}
		for _, unit := range victims {
			lost += c.units[unit].Loss
		}
		least += best.loss
	}
	t.Logf("%d evictions lose %d, at least %d", evictions, lost, least)
	if evictions < 500 || lost*100 > least*110 {
		t.Errorf("%d evictions lose %d, want at most 1.1 times %d", evictions, lost, least)
	}
}

func BenchmarkSegments(b *testing.B) {
	for name, size := range map[string]struct{ nodes, members, segment int }{
		"512 pods in segments of 16 on 1008 nodes":     {1008, 512, 16},
		"512 pods in segments of 16 on 20016 nodes":    {20_016, 512, 16},
		"10000 pods in segments of one on 20016 nodes": {20_016, 10_000, 1},
	} {
		b.Run(name, func(b *testing.B) {
			f := newFabric(18, 8, slices.Repeat([]int{1}, size.nodes)...)
			for b.Loop() {
				if plan, _ := Make(inSegments(f.alike(size.members), 1, size.segment)); plan == nil {
					b.Fatal("no plan")
				}
			}
		})
	}
}

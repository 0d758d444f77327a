package gpu

import (
	"cmp"
	"slices"
)

// SliceAllocation is the MIG slices chosen for a pod.
type SliceAllocation struct {
	// Holding is what the pod holds of the node.
	Holding *SliceHolding
	// containers are the positions for each of the demand's Slices.
	containers [][]int
}

// AllocateSlices chooses the MIG slices for a demand, or explains why there are none. Like [Allocator.Allocate] it is a function of its arguments. It
// prefers slices on one NUMA node, then as few idle GPUs as possible, so that these stay whole and can be repartitioned, then the GPUs with the most
// in use, then the lowest positions. Beyond 16 idle GPUs it may use more of them than necessary.
//
// Slices that pods hold without naming them are assumed to be the first free ones of their profile, since the agent takes those.
//
// A pod's slices are chosen as one set and then divided. Init containers use those of containers that start after them.
func (a *Allocator) AllocateSlices(used *SlicesUsed, d *Demand) (SliceAllocation, Reason) {
	if reason := a.SliceShortage(used, d); !reason.IsZero() {
		return SliceAllocation{}, reason
	}
	p := a.slices.newSlicePicker(used)
	chosen := p.bestChoice(d.Profiles)
	plan := SliceAllocation{Holding: &SliceHolding{at: chosen}, containers: make([][]int, len(d.Slices))}
	for _, asked := range d.Profiles {
		a.slices.divideSlices(asked.Profile, d, &plan)
	}
	return plan, Reason{}
}

// slicePicker is one choice of slices.
type slicePicker struct {
	*sliceTable
	// free are the slices that may be chosen, by position.
	free []bool
	// fill is how much of each GPU is in use.
	fill []int64
}

func (t *sliceTable) newSlicePicker(used *SlicesUsed) *slicePicker {
	p := &slicePicker{sliceTable: t, free: make([]bool, len(t.slices)), fill: make([]int64, len(t.gpus))}
	unnamed := map[string]int64{}
	for at := range t.slices {
		slice := &t.slices[at]
		taken := used.isHeld(at)
		if !taken && t.isHealthy(at) && unnamed[slice.Profile] < used.unknown[slice.Profile] {
			unnamed[slice.Profile]++
			taken = true
		}
		if taken {
			p.fill[slice.gpu] += t.sliceSize(at)
		}
		p.free[at] = !taken && t.isHealthy(at)
	}
	return p
}

// sliceOption is one way to serve a demand.
type sliceOption struct {
	at     []int
	opened int
	fill   int64
}

// isBetterThan reports whether to use an option rather than another.
func (o *sliceOption) isBetterThan(other *sliceOption) bool {
	return cmp.Or(cmp.Compare(o.opened, other.opened), cmp.Compare(other.fill, o.fill), slices.Compare(o.at, other.at)) < 0
}

// bestChoice chooses for a demand, for which there is enough.
func (p *slicePicker) bestChoice(asked []ProfileDemand) []int {
	var best *sliceOption
	for _, numa := range p.numaNodes() {
		found := p.bestAmong(asked, func(card int) bool { return p.gpus[card].numa == numa })
		if found != nil && (best == nil || found.isBetterThan(best)) {
			best = found
		}
	}
	if best == nil {
		best = p.bestAmong(asked, func(int) bool { return true })
	}
	return best.at
}

func (p *slicePicker) numaNodes() []int {
	var all []int
	for i := range p.gpus {
		all = append(all, p.gpus[i].numa)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bestAmong chooses among some GPUs, or returns nil if they have too few.
func (p *slicePicker) bestAmong(asked []ProfileDemand, allowed func(card int) bool) *sliceOption {
	open := make([]bool, len(p.gpus))
	var empty []int
	for card := range p.gpus {
		switch {
		case !allowed(card):
		case p.fill[card] > 0:
			open[card] = true
		default:
			empty = append(empty, card)
		}
	}
	lacking := make([]int64, len(asked))
	for i := range asked {
		lacking[i] = asked[i].Count - int64(len(p.freeSlicesOf(asked[i].Profile, open)))
	}
	needed, ok := p.openGPUs(asked, lacking, empty)
	if !ok {
		return nil
	}
	for _, card := range needed {
		open[card] = true
	}
	chosen := &sliceOption{opened: len(needed)}
	for i := range asked {
		for _, at := range p.freeSlicesOf(asked[i].Profile, open)[:asked[i].Count] {
			chosen.at = append(chosen.at, at)
			chosen.fill += p.fill[p.slices[at].gpu]
		}
	}
	slices.Sort(chosen.at)
	return chosen
}

// freeSlicesOf returns the free slices of a profile on some GPUs, those on the fullest GPUs first.
func (p *slicePicker) freeSlicesOf(profile string, cards []bool) []int {
	var found []int
	for _, at := range p.byProfile[profile] {
		if p.free[at] && cards[p.slices[at].gpu] {
			found = append(found, at)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(p.fill[p.slices[b].gpu], p.fill[p.slices[a].gpu]) })
	return found
}

// maxExhaustiveGPUs is how many empty GPUs are tried in all combinations.
const maxExhaustiveGPUs = 16

// openGPUs returns the smallest set of empty GPUs that has what is lacking, the first of equals.
func (p *slicePicker) openGPUs(asked []ProfileDemand, lacking []int64, empty []int) ([]int, bool) {
	has := make([][]int64, len(empty))
	for i, card := range empty {
		has[i] = make([]int64, len(asked))
		for at := range p.slices {
			if p.slices[at].gpu != card || !p.free[at] {
				continue
			}
			for j := range asked {
				if asked[j].Profile == p.slices[at].Profile {
					has[i][j]++
				}
			}
		}
	}
	left := lacking
	for i := range has {
		left = subtractAmounts(left, has[i])
	}
	if !isCovered(left) {
		return nil, false
	}
	var chosen []int
	if len(empty) > maxExhaustiveGPUs {
		chosen = coverGreedily(has, lacking)
	}
	for size := 0; chosen == nil; size++ {
		chosen = coverExactly(has, lacking, 0, size)
	}
	cards := make([]int, len(chosen))
	for i, at := range chosen {
		cards[i] = empty[at]
	}
	return cards, true
}

// coverExactly returns the first combination of that size, starting at a position, that together has what is lacking, or nil.
func coverExactly(has [][]int64, lacking []int64, from, size int) []int {
	if size == 0 {
		if isCovered(lacking) {
			return []int{}
		}
		return nil
	}
	for i := from; i+size <= len(has); i++ {
		if rest := coverExactly(has, subtractAmounts(lacking, has[i]), i+1, size-1); rest != nil {
			return append([]int{i}, rest...)
		}
	}
	return nil
}

// coverGreedily repeatedly takes the GPU that has the most of what is lacking. All together have enough.
func coverGreedily(has [][]int64, lacking []int64) []int {
	chosen := []int{}
	for !isCovered(lacking) {
		best, most := -1, int64(0)
		for i := range has {
			var useful int64
			for j := range lacking {
				useful += min(max(lacking[j], 0), has[i][j])
			}
			if useful > most && !slices.Contains(chosen, i) {
				best, most = i, useful
			}
		}
		chosen, lacking = append(chosen, best), subtractAmounts(lacking, has[best])
	}
	return chosen
}

func isCovered(lacking []int64) bool {
	return !slices.ContainsFunc(lacking, func(count int64) bool { return count > 0 })
}

func subtractAmounts(lacking, has []int64) []int64 {
	left := slices.Clone(lacking)
	for i := range left {
		left[i] -= has[i]
	}
	return left
}

// divideSlices assigns each container its part of the pod's slices of a profile: those that live as long as the pod have their own, and init containers use
// slices that no earlier sidecar has.
func (t *sliceTable) divideSlices(profile string, d *Demand, plan *SliceAllocation) {
	var all []int
	for _, at := range plan.Holding.at {
		if t.slices[at].Profile == profile {
			all = append(all, at)
		}
	}
	next, sidecars := 0, 0 // sidecars come first, in the order in which they start
	for _, lifetime := range []Lifetime{Sidecar, Main} {
		for i := range d.Slices {
			if asked := &d.Slices[i]; asked.Profile == profile && asked.Lifetime == lifetime {
				plan.containers[i] = all[next : next+int(asked.Count)]
				next += int(asked.Count)
			}
		}
	}
	for i := range d.Slices {
		asked := &d.Slices[i]
		switch {
		case asked.Profile != profile:
		case asked.Lifetime == Sidecar:
			sidecars += int(asked.Count)
		case asked.Lifetime == Init:
			plan.containers[i] = all[sidecars : sidecars+int(asked.Count)]
		}
	}
}

// BuildSliceAssignment names the slices of an allocation, for the annotation of the pod. The demand is the one that it was made for.
func (a *Allocator) BuildSliceAssignment(d *Demand, al *SliceAllocation) SliceAssignment {
	assignment := make(SliceAssignment, len(d.Slices))
	for i := range d.Slices {
		name := d.Slices[i].Container
		for _, at := range al.containers[i] {
			slice := &a.slices.slices[at]
			card := &a.slices.gpus[slice.gpu]
			assignment[name] = append(assignment[name], HeldSlice{UUID: slice.UUID, Profile: slice.Profile, ParentUUID: card.uuid, GPU: card.index})
		}
	}
	return assignment
}

// IdleSliced returns the number of GPUs in MIG mode that are idle except for one holding.
func (a *Allocator) IdleSliced(used *SlicesUsed, beside *SliceHolding) int {
	after := SlicesUsed{held: slices.Clone(used.held), unknown: used.unknown}
	after.Add(&SliceHolding{at: beside.at})
	idle := 0
	for _, fill := range a.slices.newSlicePicker(&after).fill {
		if fill == 0 {
			idle++
		}
	}
	return idle
}

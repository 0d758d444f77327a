package gangplan

import "slices"

const (
	// fewWeighed is up to how many units all combinations are compared, and maxExactSteps how many steps that may take.
	fewWeighed, mostWeighed = 16, 4_000
)

// weigh adds a cheaper set to some sets of units, if there are few enough units to search exhaustively. Sums and orders may miss it: one unit
// with a larger loss may make room for two, or a different budget may have to be used. If budgets left no set, it searches as well, whatever the
// number of units, up to the same number of steps.
func (c *clearing) weigh(p *place, units []int, sets []toll) []toll {
	if len(units) > fewWeighed && len(sets) > 0 || c.exhausted {
		return sets
	}
	loss := func(unit int) int64 { return c.Units[unit].Loss }
	order := c.order(units, loss, nil, nil)
	if len(units) > fewWeighed {
		order = c.order(units, loss, c.overspent(units), c.gains(p, units))
	}
	w := &weighing{clearing: c, place: p, order: order, left: slices.Clone(c.Budgets), steps: mostWeighed}
	for _, set := range sets {
		if w.best == nil || set.compare(*w.best) < 0 {
			w.best = &set
		}
	}
	known := w.best
	w.decide(0, toll{})
	c.setAll(p, units, true)
	if w.best == known {
		return sets
	}
	if set, ok := c.pardon(p, units, slices.Concat(without(units, w.best.units), c.order(w.best.units, loss, nil, nil))); ok {
		sets = append(sets, set)
	}
	return sets
}

// without returns the numbers of a list that are not in a second, sorted list.
func without(list, other []int) (rest []int) {
	for _, one := range list {
		if _, found := slices.BinarySearch(other, one); !found {
			rest = append(rest, one)
		}
	}
	return rest
}

// weighing decides on units one by one; undecided units are gone.
type weighing struct {
	*clearing
	place *place
	order []int
	left  []int
	steps int
	best  *toll
}

// decide tries to keep the next unit, and then to evict it, as long as that may cost less than the best known set.
func (w *weighing) decide(at int, so toll) {
	if w.steps--; w.steps < 0 || w.best != nil && len(so.units) > 0 && so.compare(*w.best) >= 0 {
		return
	}
	if at == len(w.order) {
		so.units = slices.Sorted(slices.Values(so.units))
		w.best = &so
		return
	}
	unit := w.order[at]
	w.set(w.place, unit, false)
	if w.fits(w.place) {
		w.decide(at+1, so)
	}
	w.set(w.place, unit, true)
	if of := &w.Units[unit]; spend(w.left, of.Spends, 1) {
		so.units = slices.Clip(so.units)
		w.decide(at+1, so.with(unit, of))
	}
	spend(w.left, w.Units[unit].Spends, -1)
}

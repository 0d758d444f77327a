package gangplan

import "slices"

const (
	// fewWeighed is how many units are all weighed against each other, and mostWeighed how many steps that may take.
	fewWeighed, mostWeighed = 16, 4_000
)

// weigh adds to some sets of units one that costs less, where they are few enough to try what costs less than the cheapest of those. Sums
// and orders may miss it: one that loses more makes room for two, or a budget is to be spent on another. Where budgets left them none they try
// as well, however many they are, for as long.
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

// without are the numbers of a list that another one, which is sorted, has not.
func without(list, other []int) (rest []int) {
	for _, one := range list {
		if _, found := slices.BinarySearch(other, one); !found {
			rest = append(rest, one)
		}
	}
	return rest
}

// weighing tries units one by one, of which those that are not decided on yet are gone.
type weighing struct {
	*clearing
	place *place
	order []int
	left  []int
	steps int
	best  *toll
}

// decide has the next unit stay, and then leave, as long as that may cost less than the best that is known.
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

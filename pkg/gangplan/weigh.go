package gangplan

import "slices"

const (
	// maxExactUnits is up to how many units all combinations are compared, and maxExactSteps how many steps that may take.
	maxExactUnits, maxExactSteps = 16, 4_000
)

// addCheaperSet adds a cheaper set to some sets of units, if there are few enough units to search exhaustively. Sums and orders may miss it: one unit
// with a larger loss may make room for two, or a different budget may have to be used. If budgets left no set, it searches as well, whatever the
// number of units, up to the same number of steps.
func (c *victimSearch) addCheaperSet(p *domainRoom, units []int, sets []candidateSet) []candidateSet {
	if len(units) > maxExactUnits && len(sets) > 0 || c.outOfSteps {
		return sets
	}
	loss := func(unit int) int64 { return c.Units[unit].Loss }
	order := c.returnOrder(units, loss, nil, nil)
	if len(units) > maxExactUnits {
		order = c.returnOrder(units, loss, c.overspentBudgets(units), c.roomGains(p, units))
	}
	w := &exactSearch{victimSearch: c, place: p, order: order, left: slices.Clone(c.Budgets), steps: maxExactSteps}
	for _, set := range sets {
		if w.best == nil || set.compareCost(*w.best) < 0 {
			w.best = &set
		}
	}
	known := w.best
	w.decideUnit(0, candidateSet{})
	c.setAllGone(p, units, true)
	if w.best == known {
		return sets
	}
	if set, ok := c.reprieveUnits(p, units, slices.Concat(withoutNumbers(units, w.best.units), c.returnOrder(w.best.units, loss, nil, nil))); ok {
		sets = append(sets, set)
	}
	return sets
}

// withoutNumbers returns the numbers of a list that are not in a second, sorted list.
func withoutNumbers(list, other []int) (rest []int) {
	for _, one := range list {
		if _, found := slices.BinarySearch(other, one); !found {
			rest = append(rest, one)
		}
	}
	return rest
}

// exactSearch decides on units one by one; undecided units are gone.
type exactSearch struct {
	*victimSearch
	place *domainRoom
	order []int
	left  []int
	steps int
	best  *candidateSet
}

// decideUnit tries to keep the next unit, and then to evict it, as long as that may cost less than the best known set.
func (w *exactSearch) decideUnit(at int, so candidateSet) {
	if w.steps--; w.steps < 0 || w.best != nil && len(so.units) > 0 && so.compareCost(*w.best) >= 0 {
		return
	}
	if at == len(w.order) {
		so.units = slices.Sorted(slices.Values(so.units))
		w.best = &so
		return
	}
	unit := w.order[at]
	w.setGone(w.place, unit, false)
	if w.gangFits(w.place) {
		w.decideUnit(at+1, so)
	}
	w.setGone(w.place, unit, true)
	if of := &w.Units[unit]; spendBudgets(w.left, of.Spends, 1) {
		so.units = slices.Clip(so.units)
		w.decideUnit(at+1, so.withUnit(unit, of))
	}
	spendBudgets(w.left, w.Units[unit].Spends, -1)
}

package fragmentation

import (
	"maps"
	"slices"
)

// maxPivots bounds the simplex. Column generation for a hundred sizes ends after some hundred.
const maxPivots = 2000

const tolerance = 1e-9

// gpuValues returns the value of each free part of a GPU, in thousandths of a GPU, when shares of these sizes are expected in these numbers:
// the best combination that fits, at the dual prices of the cutting-stock problem
//
//	minimize the number of GPUs that serve the demand, each cut by a pattern,
//
// solved as a linear program by column generation (Gilmore and Gomory, 1961). The pricing problem of each step is a knapsack over the
// thousandths of one GPU, and its table at the optimum is the answer. A whole GPU is worth 1000. A part that only fits shares which fill up
// other GPUs anyway is worth nothing.
func gpuValues(demand map[int64]float64) [Whole + 1]float64 {
	p := newProgram(demand)
	for range maxPivots {
		p.computePrices()
		p.solveKnapsack()
		if p.best[Whole] <= 1+tolerance || !p.enterPattern(p.bestPattern()) {
			break
		}
	}
	var values [Whole + 1]float64
	for free := range values {
		values[free] = min(Whole*p.best[free], Whole)
	}
	values[Whole] = Whole // also without any demand
	return values
}

// program is the linear program in the revised simplex method: one row a size, a basis of patterns.
type program struct {
	sizes []int64
	// inverse is that of the basis, and cards how often each pattern of the basis is used.
	inverse [][]float64
	cards   []float64
	prices  []float64
	// best is the value of the best combination of shares that fits in each part of a GPU, and pick the size that was added last to it, -1 for
	// none.
	best [Whole + 1]float64
	pick [Whole + 1]int
}

// newProgram starts with patterns of one size each.
func newProgram(demand map[int64]float64) *program {
	p := &program{sizes: slices.Sorted(maps.Keys(demand))}
	p.prices = make([]float64, len(p.sizes))
	for i, size := range p.sizes {
		perCard := float64(Whole / size)
		row := make([]float64, len(p.sizes))
		row[i] = 1 / perCard
		p.inverse = append(p.inverse, row)
		p.cards = append(p.cards, demand[size]/perCard)
	}
	return p
}

// computePrices computes the dual prices of the sizes: each pattern costs one GPU.
func (p *program) computePrices() {
	clear(p.prices)
	for _, row := range p.inverse {
		for j, x := range row {
			p.prices[j] += x
		}
	}
}

// solveKnapsack finds the best combination for each part of a GPU.
func (p *program) solveKnapsack() {
	for free := 1; free <= Whole; free++ {
		p.best[free], p.pick[free] = p.best[free-1], -1
		for i, size := range p.sizes {
			if int(size) > free {
				break
			}
			if value := p.best[free-int(size)] + p.prices[i]; p.prices[i] > 0 && value > p.best[free]+tolerance {
				p.best[free], p.pick[free] = value, i
			}
		}
	}
}

// bestPattern returns how many shares of each size the best combination for a whole GPU holds.
func (p *program) bestPattern() []float64 {
	counts := make([]float64, len(p.sizes))
	for free := int64(Whole); free > 0; {
		i := p.pick[free]
		if i < 0 {
			free--
			continue
		}
		counts[i]++
		free -= p.sizes[i]
	}
	return counts
}

// enterPattern takes a pattern into the basis, in place of the one that it drives out. It returns false if there is none.
func (p *program) enterPattern(pattern []float64) bool {
	change := make([]float64, len(p.inverse))
	leaving, least := -1, 0.0
	for i, row := range p.inverse {
		for j, x := range row {
			change[i] += x * pattern[j]
		}
		if change[i] <= tolerance {
			continue
		}
		if ratio := p.cards[i] / change[i]; leaving < 0 || ratio < least {
			leaving, least = i, ratio
		}
	}
	if leaving < 0 {
		return false
	}
	pivot := p.inverse[leaving]
	for j := range pivot {
		pivot[j] /= change[leaving]
	}
	for i, row := range p.inverse {
		if i == leaving {
			continue
		}
		for j := range row {
			row[j] -= change[i] * pivot[j]
		}
		p.cards[i] -= change[i] * least
	}
	p.cards[leaving] = least
	return true
}

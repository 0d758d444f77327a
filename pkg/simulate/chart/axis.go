package chart

import (
	"math"
	"strconv"
)

// axis is a range of values.
type axis struct {
	from, to float64
	log      bool
}

// positionOf is the position of a value on the axis, from 0 to 1.
func (a axis) positionOf(value float64) float64 {
	if a.log {
		return math.Log10(max(value, a.from)/a.from) / math.Log10(a.to/a.from)
	}
	return (value - a.from) / (a.to - a.from)
}

// maxTicks is how many numbers an axis has at most.
const maxTicks = 7

// tickValues are the round numbers to write at the axis: powers of ten, or multiples of 1, 2 or 5 times one.
func (a axis) tickValues() []float64 {
	var out []float64
	if a.log {
		for tick := a.from; tick <= a.to*1.001; tick *= 10 {
			out = append(out, tick)
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/maxTicks)))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (a.to-a.from)/step > maxTicks {
			step *= factor
		}
	}
	for count := math.Ceil(a.from/step - 1e-9); count*step <= a.to+step*1e-9; count++ {
		out = append(out, count*step+0) // -0 + 0 is 0
	}
	return out
}

// tickText writes a tick without the digits that floating point adds.
func tickText(tick float64) string {
	return strconv.FormatFloat(tick, 'g', 6, 64)
}

package forecast

import (
	"math"
	"math/rand/v2"
)

// together is which part of the luck of a play all jobs have together. It was chosen on the first half of Philly's jobs, so that intervals
// hold as often as they say; docs/benchmarks/queueing.md has how often they do on the second.
const together = 0.35

// luck is how long jobs run in one play, of what is possible.
type luck struct {
	rng *rand.Rand
	all float64
}

func newLuck(rng *rand.Rand) luck { return luck{rng, math.Sqrt(together) * rng.NormFloat64()} }

// draw is the luck of the next job, from 0 for the shortest that it may run to 1 for the longest, each as likely as the other.
func (l *luck) draw() float64 {
	own := math.Sqrt(1-together) * l.rng.NormFloat64()
	return math.Erfc(-(l.all+own)/math.Sqrt2) / 2
}

package forecast

import (
	"math"
	"math/rand/v2"
)

// sharedLuck is the part of the luck of a simulation that all jobs share. It was chosen on the first half of Philly's jobs, so that intervals are
// correct as often as they claim; docs/benchmarks/queueing.md has the rate on the second half.
const sharedLuck = 0.35

// runTimeLuck determines the run times of jobs in one simulation.
type runTimeLuck struct {
	rng *rand.Rand
	all float64
}

func newLuck(rng *rand.Rand) runTimeLuck {
	return runTimeLuck{rng, math.Sqrt(sharedLuck) * rng.NormFloat64()}
}

// nextQuantile returns the luck of the next job, from 0 for its shortest possible run time to 1 for the longest, uniformly distributed.
func (l *runTimeLuck) nextQuantile() float64 {
	own := math.Sqrt(1-sharedLuck) * l.rng.NormFloat64()
	return math.Erfc(-(l.all+own)/math.Sqrt2) / 2
}

package trace

import "math"

// Percents is the number of points of a Series: 0–130 % arrived.
const Percents = 131

// Series is the share of all GPUs that is allocated, in percent, at each percent arrived: the mean over the pods that
// came while what has been asked for rounds to that percentage.
type Series [Percents]float64

// Collector makes a Series.
type Collector struct {
	// Capacity is all GPUs, in thousandths of one.
	Capacity int64

	sums   Series
	counts [Percents]float64
}

// Add records what is allocated after a pod, when that much has been requested, both in thousandths of a GPU.
func (c *Collector) Add(arrived, allocated int64) {
	if c.Capacity <= 0 {
		return
	}
	at := int(math.RoundToEven(100 * (float64(arrived) / float64(c.Capacity))))
	if at < Percents {
		c.sums[at] += 100 * (float64(allocated) / float64(c.Capacity))
		c.counts[at]++
	}
}

// Means returns the means. A percentage at which no pod came has the value of the one before.
func (c *Collector) Means() Series {
	var means Series
	for i := range means {
		switch {
		case c.counts[i] > 0:
			means[i] = c.sums[i] / c.counts[i]
		case i > 0:
			means[i] = means[i-1]
		}
	}
	return means
}

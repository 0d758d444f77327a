package placement

import (
	"math"
)

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

// Add notes what is allocated after a pod, when so much has been asked for, both in thousandths of a GPU.
func (c *Collector) Add(arrived, allocated int64) {
	if c.Capacity <= 0 {
		return
	}
	at := int(math.RoundToEven(100 * share(arrived, c.Capacity)))
	if at < Percents {
		c.sums[at] += 100 * share(allocated, c.Capacity)
		c.counts[at]++
	}
}

// Series returns the means. A percentage at which no pod came has the value of the one before.
func (c *Collector) Series() Series {
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

// Fill lets pods arrive at an empty cluster until none is left. A pod that fits nowhere is lost.
func Fill(arrivals Arrivals, policy Policy) Series {
	cluster := NewCluster(arrivals.Nodes, policy)
	collected := Collector{Capacity: Capacity(arrivals.Nodes)}
	arrived, allocated := int64(0), int64(0)
	for i := range arrivals.Pods {
		pod := &arrivals.Pods[i]
		arrived += pod.TotalMilliGPU()
		if at, _ := cluster.Place(pod); at >= 0 {
			allocated += pod.TotalMilliGPU()
		}
		collected.Add(arrived, allocated)
	}
	return collected.Series()
}

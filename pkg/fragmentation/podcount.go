package fragmentation

// PodCount counts the running and waiting pods that request GPUs, by pool. The current pods of each kind are the expected ones, so no state has
// to survive a restart, and nothing grows with time. The departures for each arrival are measured from one round to the next. The zero value is
// empty.
type PodCount struct {
	pools map[string]*population
	all   int64
	// hadRound is whether there was a round: earlier pods do not count as arrivals, and none of them as departed.
	hadRound bool
}

// population is the pods of a pool that request GPUs.
type population struct {
	// pods are their numbers by request, all is their total number.
	pods map[PodRequest]int64
	all  int64
	// rate is how many of them leave for each one that arrives, as of the last round.
	rate float64
	// changes is the number of all arrivals and departures.
	changes int64

	turnover   Turnover
	came, left int64 // since the last round
}

// Len returns the number of pods that request GPUs.
func (c *PodCount) Len() int64 { return c.all }

// Add counts a pod. A pod that requests no GPUs is ignored.
func (c *PodCount) Add(asked PodRequest) {
	if asked.NeedsNoGPUs() {
		return
	}
	in := c.pools[asked.Pool]
	if in == nil {
		if c.pools == nil {
			c.pools = map[string]*population{}
		}
		in = &population{pods: map[PodRequest]int64{}}
		c.pools[asked.Pool] = in
	}
	c.all++
	in.all++
	in.changes++
	in.pods[asked]++
	if c.hadRound {
		in.came++
	}
}

// RemovePod removes a pod that Add counted.
func (c *PodCount) RemovePod(asked PodRequest) {
	if asked.NeedsNoGPUs() {
		return
	}
	in := c.pools[asked.Pool]
	c.all--
	in.all--
	in.changes++
	if c.hadRound {
		in.left++
	}
	if in.pods[asked]--; in.pods[asked] == 0 {
		delete(in.pods, asked)
	}
}

// EndRound ends a round: rates are computed from the arrivals and departures since the last one. Pools without pods for a while are dropped.
func (c *PodCount) EndRound() {
	c.hadRound = true
	for pool, in := range c.pools {
		in.rate = in.turnover.NextRate(in.came, in.left)
		in.came, in.left = 0, 0
		if in.all == 0 && in.turnover.IsIdle() {
			delete(c.pools, pool)
		}
	}
}

package fragmentation

// PodCount counts the pods that run or wait and ask for cards, by pool. What there is of each kind now is what is
// expected to come, so nothing need be kept over a restart, and nothing grows with time. How many pods leave for each
// that comes it learns from one turn to the next. The zero value has counted none.
type PodCount struct {
	pools map[string]*population
	all   int64
	// turned is whether there was a turn: the pods before the first one have not come, they were there, and nobody has left.
	turned bool
}

// population is the pods of a pool that ask for cards.
type population struct {
	// pods are their numbers by what they ask for, all is how many there are together.
	pods map[Ask]int64
	all  int64
	// rate is how many of them leave for each that comes, as of the last turn.
	rate float64
	// changes is how many have ever come or left.
	changes int64

	turnover   Turnover
	came, left int64 // since the last turn
}

// Len is how many pods there are that ask for cards.
func (c *PodCount) Len() int64 { return c.all }

// Add counts a pod. One that asks for no cards counts for nothing.
func (c *PodCount) Add(asked Ask) {
	if asked.NoCards() {
		return
	}
	in := c.pools[asked.Pool]
	if in == nil {
		if c.pools == nil {
			c.pools = map[string]*population{}
		}
		in = &population{pods: map[Ask]int64{}}
		c.pools[asked.Pool] = in
	}
	c.all++
	in.all++
	in.changes++
	in.pods[asked]++
	if c.turned {
		in.came++
	}
}

// Remove takes out a pod that Add counted.
func (c *PodCount) Remove(asked Ask) {
	if asked.NoCards() {
		return
	}
	in := c.pools[asked.Pool]
	c.all--
	in.all--
	in.changes++
	if c.turned {
		in.left++
	}
	if in.pods[asked]--; in.pods[asked] == 0 {
		delete(in.pods, asked)
	}
}

// Turn ends a turn: what came and left since the last one is what rates follow from. Pools without pods for a while are
// forgotten.
func (c *PodCount) Turn() {
	c.turned = true
	for pool, in := range c.pools {
		in.rate = in.turnover.Next(in.came, in.left)
		in.came, in.left = 0, 0
		if in.all == 0 && in.turnover.Idle() {
			delete(c.pools, pool)
		}
	}
}

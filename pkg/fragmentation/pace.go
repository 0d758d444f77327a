package fragmentation

// Bounds of how many pods may arrive between two models. Beyond maxPace × manyPods pods, maxPace are too few to change a model, and updating
// that often would be the largest cost of a pod.
const (
	minPace  = 16
	maxPace  = 256
	manyPods = 64
)

// Pace determines when a model is computed again. It may be due at certain numbers of pods, the points: each a sixteenth after the last, at most
// 256, so that the first pods of an empty cluster count quickly. If more pods than that exist from the beginning, as after a restart, new ones
// change as little as late ones do: then it is due where a stride ends, a sixteenth of the known pods; in a large cluster, a sixty-fourth if
// that is more than 256. Neither depends on when it is asked, so two processes that count the same pods compute their models at the same points.
// The zero value is due at once.
type Pace struct {
	// seen is the last number, next the next point, and made the point at which a model was last due.
	seen, next, made int64
}

// IsDue counts a pod, and reports whether a model is due before it is placed, with so many known pods.
func (p *Pace) IsDue(known int64) bool {
	p.seen++
	return p.IsDueAt(p.seen, known)
}

// IsDueAt reports whether a model is due before the pod with a number, from 1, is placed, if pods are counted elsewhere, with so many known pods.
// A number below the last one belongs to another count, which starts over.
func (p *Pace) IsDueAt(number, known int64) bool {
	if number < p.seen {
		*p = Pace{}
	}
	p.seen = number
	if number < p.next {
		return false
	}
	first, last := p.next == 0, max(p.next, 1)
	for pointAfter(last) <= number {
		last = pointAfter(last)
	}
	p.next = pointAfter(last)
	if stride := strideOf(known); !first && last/stride == p.made/stride {
		return false
	}
	p.made = last
	return true
}

// pointAfter returns the next number after one at which a model may be due.
func pointAfter(point int64) int64 { return point + min(max(minPace, point/minPace), maxPace) }

// strideOf returns how many pods lie between two models with so many known pods: a sixteenth, as a power of two, so that a few pods more or less
// rarely change it.
func strideOf(known int64) int64 {
	stride := int64(minPace)
	for stride*2 <= min(known/minPace, max(maxPace, known/manyPods)) {
		stride *= 2
	}
	return stride
}

// ChangeThreshold returns how many of so many pods have to arrive or leave before their model is worth recomputing: a sixteenth, at most 256, at
// least one.
func ChangeThreshold(pods int64) int64 { return max(1, min(pods/minPace, maxPace)) }

// turnoverWindow is for how many models arrivals and departures count.
const turnoverWindow = 8

// Turnover measures how many pods leave for each one that arrives: 0 while a cluster only fills, 1 once it is as full as it gets. It only covers
// the last models, so that processes that start at different times soon agree. The zero value is empty.
type Turnover struct {
	came, left [turnoverWindow]int64
	at         int
}

// NextRate counts the arrivals and departures since the last model, and returns how many pods leave for each one that arrives.
func (t *Turnover) NextRate(came, left int64) float64 {
	t.came[t.at], t.left[t.at] = came, left
	t.at = (t.at + 1) % turnoverWindow
	came, left = 0, 0
	for i := range turnoverWindow {
		came += t.came[i]
		left += t.left[i]
	}
	return min(float64(left)/float64(max(came, 1)), 1)
}

// IsIdle reports whether no pod has arrived or left lately.
func (t *Turnover) IsIdle() bool {
	return t.came == [turnoverWindow]int64{} && t.left == [turnoverWindow]int64{}
}

package fragmentation

// Bounds of how many pods may come between two models. Where there are more than maxPace × manyPods of them, maxPace are
// too few to change a model, and counting all would be what a pod costs most.
const (
	minPace  = 16
	maxPace  = 256
	manyPods = 64
)

// Pace tells when a model is to be made again. It may be due at certain numbers of pods, the points: each a sixteenth
// after the last, so that the first pods of an empty cluster teach quickly, and at most 256. Where more pods than that are
// there from the beginning, as after a restart, those that come change as little as late ones do: then it is due where a
// stride ends, a sixteenth of the pods that are known; in a large cluster, a sixty-fourth if that is more than 256. Neither
// depends on when it is asked, so that two who count the same pods make their models at the same ones. The zero value
// is due at once.
type Pace struct {
	// seen is the last number, next the next point, made the point at which a model was last due.
	seen, next, made int64
}

// Due counts a pod, and reports whether a model is due before it is placed, where as many are known.
func (p *Pace) Due(known int64) bool {
	p.seen++
	return p.DueAt(p.seen, known)
}

// DueAt reports whether a model is due before the pod of some number, from 1, is placed, where pods are counted
// elsewhere, and as many are known. A number less than the last one is of another count, which begins again.
func (p *Pace) DueAt(number, known int64) bool {
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

// pointAfter is the next number after one at which a model may be due.
func pointAfter(point int64) int64 { return point + min(max(minPace, point/minPace), maxPace) }

// strideOf is how many pods lie between two models where so many are known: a sixteenth, as a power of two, so that a
// few pods more or less seldom change it.
func strideOf(known int64) int64 {
	stride := int64(minPace)
	for stride*2 <= min(known/minPace, max(maxPace, known/manyPods)) {
		stride *= 2
	}
	return stride
}

// Few is how many of so many pods have to come or leave before it is worth while to make their model again: a sixteenth, at
// most 256, at least one.
func Few(pods int64) int64 { return max(1, min(pods/minPace, maxPace)) }

// remembered is how many models the pods that came and left count for.
const remembered = 8

// Turnover learns how many pods leave for each that comes: 0 while a cluster only fills, 1 once it is as full as it
// gets. It knows the last models alone, so that two who join at different times soon agree. The zero value has seen none.
type Turnover struct {
	came, left [remembered]int64
	at         int
}

// Next counts the pods that came and that left since the last model, and returns how many leave for each that comes.
func (t *Turnover) Next(came, left int64) float64 {
	t.came[t.at], t.left[t.at] = came, left
	t.at = (t.at + 1) % remembered
	came, left = 0, 0
	for i := range remembered {
		came += t.came[i]
		left += t.left[i]
	}
	return min(float64(left)/float64(max(came, 1)), 1)
}

// Idle reports whether no pod came or left lately.
func (t *Turnover) Idle() bool { return t.came == [remembered]int64{} && t.left == [remembered]int64{} }

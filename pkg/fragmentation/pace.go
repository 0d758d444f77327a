package fragmentation

// Bounds of how many pods may come between two models.
const (
	minPace = 16
	maxPace = 256
)

// Pace tells when a model is to be made anew: after a sixteenth more pods than before, so that the first pods of an
// empty cluster teach quickly, and after 256 at the latest. At how many pods that is does not depend on when it is asked,
// so that two who count the same pods make their models at the same ones. The zero value is due at once.
type Pace struct{ seen, next int64 }

// Due counts a pod, and reports whether a model is due before it is placed.
func (p *Pace) Due() bool {
	p.seen++
	return p.DueAt(p.seen)
}

// DueAt reports whether a model is due before the pod of some number, from 1, is placed, where pods are counted
// elsewhere. A number less than the last one is of another count, which begins anew.
func (p *Pace) DueAt(number int64) bool {
	if number < p.seen {
		*p = Pace{}
	}
	p.seen = number
	if number < p.next {
		return false
	}
	for p.next = max(p.next, 1); p.next <= number; {
		p.next += min(max(minPace, p.next/minPace), maxPace)
	}
	return true
}

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

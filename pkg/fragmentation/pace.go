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

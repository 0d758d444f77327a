package fragmentation

// Bounds of how many pods may come between two models.
const (
	minPace = 16
	maxPace = 256
)

// Pace tells when a model is to be made anew: after a sixteenth more pods than before, so that the first pods of an
// empty cluster teach quickly, and after 256 at the latest. The zero value is due at once.
type Pace struct{ seen, next int64 }

// Due counts a pod, and reports whether a model is due before it is placed.
func (p *Pace) Due() bool {
	p.seen++
	if p.seen < p.next {
		return false
	}
	p.next = p.seen + min(max(minPace, p.seen/minPace), maxPace)
	return true
}

package gpu

import "math"

// Room returns how many pods of a demand there are cards for: never fewer than [Allocator.Allocate] would serve one after
// the other, and more only where cards lie such that some of them are of no use. A demand for no card has room without
// end.
func (a *Allocator) Room(used *Used, d *Demand) int64 {
	room := int64(math.MaxInt64)
	if whole := d.wholePeak(); whole > 0 {
		if !a.countsFor(d) {
			return 0
		}
		room = min(room, int64(a.freeWhole(used, d).Len())/whole)
	}
	if width := d.widestShare(); width > 0 {
		room = min(room, a.slots(used, d, width)/max(width, d.Shared))
	}
	return room
}

// slots returns how many times the demanded share of a card is free, 0 where too few cards have any.
func (a *Allocator) slots(used *Used, d *Demand, width int64) int64 {
	if d.ShareMiB <= 0 {
		return 0
	}
	s := a.shareable(used, d)
	roomy := s.roomy()
	if int64(roomy.Len()) < width {
		return 0
	}
	var slots int64
	for card := range roomy.All() {
		slots += s.leftMiB[card] / d.ShareMiB
	}
	return slots
}

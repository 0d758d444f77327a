package gpu

import "math"

// RoomFor returns for how many pods of a demand there are GPUs. It is never lower than what [Allocator.Allocate] would serve one after the other, and
// higher only if the connections of some GPUs make them useless. A demand for no GPU has unlimited room.
func (a *Allocator) RoomFor(used *Used, d *Demand) int64 {
	room := int64(math.MaxInt64)
	if whole := d.wholePeak(); whole > 0 {
		if !a.countsFor(d) {
			return 0
		}
		room = min(room, int64(a.freeWhole(used, d).Len())/whole)
	}
	if width := d.widestShare(); width > 0 {
		room = min(room, a.countSlots(used, d, width)/max(width, d.Shared))
	}
	return room
}

// countSlots returns how many times the demanded share of a GPU is free, 0 if too few GPUs have any.
func (a *Allocator) countSlots(used *Used, d *Demand, width int64) int64 {
	if d.ShareMiB <= 0 {
		return 0
	}
	s := a.shareableGPUs(used, d)
	roomy := s.gpusWithRoom()
	if int64(roomy.Len()) < width {
		return 0
	}
	var slots int64
	for card := range roomy.All() {
		slots += s.leftMiB[card] / d.ShareMiB
	}
	return slots
}

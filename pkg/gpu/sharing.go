package gpu

// slotPlacement places the slots of one pod on GPUs: best fit of memory, in exact MiB.
//
// Each container gets different GPUs. Containers that live as long as the pod come first, the largest
// first; an init container then reuses slots of containers that start after it. GPUs that
// are shared already come first, so that whole GPUs stay whole; among those the one with the least
// memory left; among free GPUs of equal memory the one that leaves the most potential for whole sets.
//
// Taking the tightest GPU can leave a pod of several containers without enough different GPUs, so a
// second attempt takes the emptiest GPU each time. It finds a place for containers that live as long as
// the pod whenever there is one: no GPU is closer to full than it has to be.
type slotPlacement struct {
	allocator *Allocator
	plan      *Allocation
	shareMiB  int64
	leftMiB   [MaxGPUs]int64
	// open are GPUs that are shared; closed are free ones that may be.
	open, closed Set
	// emptiest selects the GPU with the most memory left.
	emptiest bool
}

// placeShared chooses the pod's shared GPUs.
func (a *Allocator) placeShared(used *Used, d *Demand, plan *Allocation) bool {
	if d.ShareMiB <= 0 {
		return false
	}
	s := a.shareableGPUs(used, d)
	s.plan = plan
	if s.placeContainers(d) {
		return true
	}
	*plan = Allocation{}
	s = a.shareableGPUs(used, d)
	s.plan, s.emptiest = plan, true
	return s.placeContainers(d)
}

// shareableGPUs returns what is left on the GPUs that a demand may share. It is negative if pods hold more than may be shared by now, as those placed by
// an older scheduler can.
func (a *Allocator) shareableGPUs(used *Used, d *Demand) slotPlacement {
	able := a.suitableGPUs(d) &^ used.whole
	s := slotPlacement{allocator: a, shareMiB: d.ShareMiB, open: able & used.shared, closed: able &^ used.shared}
	for card := range able.All() {
		s.leftMiB[card] = a.shareableMiB[card] - used.sharedMiB[card] - used.unknown.ShareMiB
	}
	s.closed = a.withholdUnknown(s.closed&s.gpusWithRoom(), used.unknown.Whole)
	return s
}

// gpusWithRoom returns the GPUs with room for one slot.
func (s *slotPlacement) gpusWithRoom() Set {
	var roomy Set
	for card := range (s.open | s.closed).All() {
		if s.leftMiB[card] >= s.shareMiB {
			roomy |= singleGPU(card)
		}
	}
	return roomy
}

func (s *slotPlacement) placeContainers(d *Demand) bool {
	s.plan.ShareMiB = s.shareMiB
	var done Set
	for i := d.largestContainer(done, sharedCount); i >= 0; i = d.largestContainer(done, sharedCount) {
		if !s.takeSlots(i, d.Containers[i].Shared) {
			return false
		}
		done |= singleGPU(i)
	}
	for i := range d.Containers {
		if d.Containers[i].Lifetime == Init && !s.reuseSlots(d, i) {
			return false
		}
	}
	return true
}

// takeSlots gives a container slots on count more GPUs.
func (s *slotPlacement) takeSlots(container int, count int64) bool {
	mine := &s.plan.containers[container]
	for ; count > 0; count-- {
		card := s.pickGPU(s.gpusWithRoom() &^ *mine)
		if card < 0 {
			return false
		}
		*mine |= singleGPU(card)
		s.plan.Shared |= singleGPU(card)
		s.plan.slots[card]++
		s.leftMiB[card] -= s.shareMiB
		s.open |= singleGPU(card)
		s.closed &^= singleGPU(card)
	}
	return true
}

// reuseSlots gives an init container slots that the pod holds for later, and more only if these are not enough.
func (s *slotPlacement) reuseSlots(d *Demand, container int) bool {
	count := d.Containers[container].Shared
	for card := range s.plan.Shared.All() {
		if count == 0 {
			break
		}
		if s.plan.sidecarSlots(d, container, card) < s.plan.slots[card] {
			s.plan.containers[container] |= singleGPU(card)
			count--
		}
	}
	return s.takeSlots(container, count)
}

// sidecarSlots returns how many slots of a GPU belong to sidecars that run while an init container does.
func (al *Allocation) sidecarSlots(d *Demand, container, card int) uint8 {
	var slots uint8
	for j := range container {
		if d.Containers[j].Lifetime == Sidecar && al.containers[j].Has(card) {
			slots++
		}
	}
	return slots
}

// pickGPU returns the GPU to use next, the lowest of equals, or -1 when there is none.
func (s *slotPlacement) pickGPU(cards Set) int {
	best := -1
	for card := range cards.All() {
		if best < 0 || s.isBetter(card, best) {
			best = card
		}
	}
	return best
}

// isBetter reports whether to use card rather than other.
func (s *slotPlacement) isBetter(card, other int) bool {
	switch {
	case s.emptiest:
		return s.leftMiB[card] > s.leftMiB[other]
	case s.open.Has(card) != s.open.Has(other):
		return s.open.Has(card)
	case s.leftMiB[card] != s.leftMiB[other]:
		return s.leftMiB[card] < s.leftMiB[other]
	case s.open.Has(card) || s.allocator.topology.potential == nil:
		return false
	}
	potential := s.allocator.topology.potential
	return potential[s.closed&^singleGPU(card)] > potential[s.closed&^singleGPU(other)]
}

package gpu

import (
	"errors"
	"fmt"
)

// Holding is what one pod holds of a node's cards. Positions are those of one inventory: when that
// changes, holdings are resolved anew. The zero value holds nothing.
type Holding struct {
	// Whole are the cards that the pod has for itself.
	Whole Set
	// Shared are the cards of which it has some memory.
	Shared Set
	// ShareMiB is the memory of one slot on a shared card.
	ShareMiB int64
	// slots is the number of slots on each shared card, one for each container at the same time.
	slots [MaxCards]uint8
	// Unknown is what the pod holds on cards that we cannot name.
	Unknown Unknown
}

// Unknown is what is held on cards that we cannot name, by pods that another scheduler placed.
type Unknown struct {
	// Whole is the number of cards held whole.
	Whole int64
	// Shared is the number of cards that may be shared, at the most.
	Shared int64
	// ShareMiB is the memory that may be held on any one card, at the most.
	ShareMiB int64
}

// MemoryOn returns the memory in MiB that the pod holds on a shared card.
func (h *Holding) MemoryOn(card int) int64 { return int64(h.slots[card]) * h.ShareMiB }

// UnknownHolding returns what a pod holds that asks d and of which no cards are known.
func UnknownHolding(d *Demand) Holding {
	shared, perCard := min(d.Shared, MaxCards+1), int64(0)
	for i := range d.Containers {
		asked := min(d.Containers[i].Shared, MaxCards+1)
		shared = max(shared, asked)
		if asked > 0 {
			perCard += min(max(d.ShareMiB, 0), maxMemoryMiB)
		}
	}
	// One card more than any node has already means all of them. The cap keeps every sum exact, so that
	// removing the pod undoes adding it.
	return Holding{Unknown: Unknown{Whole: min(d.wholePeak(), MaxCards+1), Shared: shared, ShareMiB: perCard}}
}

// Used is what all pods of a node hold together. It is a sum and nothing more: pods may be added and
// removed in any order, also ones that contradict each other, such as two that were bound to one card by
// two schedulers; then the card is free when both are gone. The zero value is an empty node.
type Used struct {
	whole, shared Set
	holders       [MaxCards]int32 // pods that hold the card whole
	sharedMiB     [MaxCards]int64
	unknown       Unknown
}

// Add counts a pod.
func (u *Used) Add(h *Holding) {
	for rest := h.Whole; rest != 0; {
		var card int
		card, rest = rest.pop()
		u.holders[card]++
	}
	for rest := h.Shared; rest != 0; {
		var card int
		card, rest = rest.pop()
		u.sharedMiB[card] += h.MemoryOn(card)
	}
	u.whole |= h.Whole
	u.shared |= h.Shared
	u.unknown = u.unknown.plus(h.Unknown, 1)
}

// Remove takes a pod out again. Removing what is not there is an error and changes nothing.
func (u *Used) Remove(h *Holding) error {
	if err := u.holds(h); err != nil {
		return fmt.Errorf("removing a pod from the cards in use: %w", err)
	}
	for rest := h.Whole; rest != 0; {
		var card int
		card, rest = rest.pop()
		if u.holders[card]--; u.holders[card] == 0 {
			u.whole &^= only(card)
		}
	}
	for rest := h.Shared; rest != 0; {
		var card int
		card, rest = rest.pop()
		if u.sharedMiB[card] -= h.MemoryOn(card); u.sharedMiB[card] == 0 {
			u.shared &^= only(card)
		}
	}
	u.unknown = u.unknown.plus(h.Unknown, -1)
	return nil
}

// holds tells what of a holding is not in use.
func (u *Used) holds(h *Holding) error {
	if missing := h.Whole &^ u.whole; missing != 0 {
		return fmt.Errorf("cards %v are not held whole", missing)
	}
	for rest := h.Shared; rest != 0; {
		var card int
		card, rest = rest.pop()
		if h.MemoryOn(card) > u.sharedMiB[card] {
			return fmt.Errorf("card %d has %d MiB in use, fewer than %d", card, u.sharedMiB[card], h.MemoryOn(card))
		}
	}
	if left := u.unknown.plus(h.Unknown, -1); left.Whole < 0 || left.Shared < 0 || left.ShareMiB < 0 {
		return errors.New("fewer unnamed cards are in use")
	}
	return nil
}

func (k Unknown) plus(other Unknown, sign int64) Unknown {
	return Unknown{
		Whole:    k.Whole + sign*other.Whole,
		Shared:   k.Shared + sign*other.Shared,
		ShareMiB: k.ShareMiB + sign*other.ShareMiB,
	}
}

// Whole returns the cards that pods hold whole.
func (u *Used) Whole() Set { return u.whole }

// Shared returns the cards of which pods hold memory.
func (u *Used) Shared() Set { return u.shared }

// MemoryOn returns the memory in MiB that pods hold on a card that they share.
func (u *Used) MemoryOn(card int) int64 { return u.sharedMiB[card] }

// Unknown returns what is held on cards that we cannot name.
func (u *Used) Unknown() Unknown { return u.unknown }

// Conflicts returns the cards that pods hold against each other: whole by two, or whole and shared. Our
// allocator makes none; a second scheduler on the same node can.
func (u *Used) Conflicts() Set {
	conflicts := u.whole & u.shared
	for rest := u.whole; rest != 0; {
		var card int
		card, rest = rest.pop()
		if u.holders[card] > 1 {
			conflicts |= only(card)
		}
	}
	return conflicts
}

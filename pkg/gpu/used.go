package gpu

import (
	"errors"
	"fmt"
)

// Used is what all pods of a node hold together. It is only a sum: pods may be added and removed in any order, including contradictory ones, such as
// two that were bound to one GPU by two schedulers. Then the GPU is free when both are gone. The zero value is an empty node.
type Used struct {
	whole, shared Set
	holders       [MaxGPUs]int32 // pods that hold the GPU whole
	sharedMiB     [MaxGPUs]int64
	unknown       Unknown
}

// Add counts a pod.
func (u *Used) Add(h *Holding) {
	for card := range h.Whole.All() {
		u.holders[card]++
	}
	for card := range h.Shared.All() {
		u.sharedMiB[card] += h.MemoryOn(card)
	}
	u.whole |= h.Whole
	u.shared |= h.Shared
	u.unknown = u.unknown.addSigned(h.Unknown, 1)
}

// Remove removes a pod. Removing what is not there is an error and changes nothing.
func (u *Used) Remove(h *Holding) error {
	if err := u.checkHeld(h); err != nil {
		return fmt.Errorf("removing a pod from the cards in use: %w", err)
	}
	for card := range h.Whole.All() {
		if u.holders[card]--; u.holders[card] == 0 {
			u.whole &^= singleGPU(card)
		}
	}
	for card := range h.Shared.All() {
		if u.sharedMiB[card] -= h.MemoryOn(card); u.sharedMiB[card] == 0 {
			u.shared &^= singleGPU(card)
		}
	}
	u.unknown = u.unknown.addSigned(h.Unknown, -1)
	return nil
}

// checkHeld returns an error that names the part of a holding that is not in use.
func (u *Used) checkHeld(h *Holding) error {
	if missing := h.Whole &^ u.whole; missing != 0 {
		return fmt.Errorf("cards %v are not held whole", missing)
	}
	for card := range h.Shared.All() {
		if h.MemoryOn(card) > u.sharedMiB[card] {
			return fmt.Errorf("card %d has %d MiB in use, fewer than %d", card, u.sharedMiB[card], h.MemoryOn(card))
		}
	}
	if left := u.unknown.addSigned(h.Unknown, -1); left.Whole < 0 || left.Shared < 0 || left.ShareMiB < 0 {
		return errors.New("fewer unnamed cards are in use")
	}
	return nil
}

func (k Unknown) addSigned(other Unknown, sign int64) Unknown {
	return Unknown{
		Whole:    k.Whole + sign*other.Whole,
		Shared:   k.Shared + sign*other.Shared,
		ShareMiB: k.ShareMiB + sign*other.ShareMiB,
	}
}

// WholeGPUs returns the GPUs that pods hold whole.
func (u *Used) WholeGPUs() Set { return u.whole }

// SharedGPUs returns the GPUs of which pods hold memory.
func (u *Used) SharedGPUs() Set { return u.shared }

// MemoryOn returns the memory in MiB that pods hold on a GPU that they share.
func (u *Used) MemoryOn(card int) int64 { return u.sharedMiB[card] }

// UnknownUse returns what is held on unidentified GPUs.
func (u *Used) UnknownUse() Unknown { return u.unknown }

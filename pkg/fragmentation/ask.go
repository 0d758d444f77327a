package fragmentation

// Ask is what a pod asks for, as far as the pods are concerned that may come.
type Ask struct {
	// Pool is the pool of the pod, Types the card types that will do, sorted and separated by commas; "" is any.
	Pool, Types string
	// Whole is how many cards for itself, Shared how many that it shares, with ShareMiB of the memory of each.
	Whole, Shared, ShareMiB int64
	MilliCPU, MemoryMiB     int64
}

// NoCards reports whether an ask is for no cards.
func (a *Ask) NoCards() bool { return a.Whole <= 0 && a.Shared <= 0 }

// Class returns an ask as pods on cards of a size see it, or one of no cards if it asks for none of these.
func (a *Ask) Class(cardMiB int64) Class {
	class := Class{MilliCPU: a.MilliCPU, MemoryMiB: a.MemoryMiB, Types: a.Types}
	switch {
	case a.Whole > 0:
		class.Cards, class.Share = a.Whole, Whole
	case a.Shared > 0 && cardMiB > 0 && a.ShareMiB <= cardMiB:
		class.Cards, class.Share = a.Shared, Thousandths(a.ShareMiB, cardMiB)
	}
	return class
}

// Thousandths is a part of a card, rounded up.
func Thousandths(memoryMiB, cardMiB int64) int64 { return (memoryMiB*Whole + cardMiB - 1) / cardMiB }

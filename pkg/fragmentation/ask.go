package fragmentation

// PodRequest is what a pod requests, as far as it matters for the expected pods.
type PodRequest struct {
	// Pool is the pool of the pod. Types are the acceptable GPU types, sorted and separated by commas; "" is any.
	Pool, Types string
	// Whole is how many GPUs of its own, Shared how many shared ones, with ShareMiB of the memory of each.
	Whole, Shared, ShareMiB int64
	MilliCPU, MemoryMiB     int64
}

// NeedsNoGPUs reports whether a request is for no GPUs.
func (a *PodRequest) NeedsNoGPUs() bool { return a.Whole <= 0 && a.Shared <= 0 }

// ClassOn returns the class of a request on GPUs of a size, or a class without GPUs if it requests none of these.
func (a *PodRequest) ClassOn(cardMiB int64) Class {
	class := Class{MilliCPU: a.MilliCPU, MemoryMiB: a.MemoryMiB, Types: a.Types}
	switch {
	case a.Whole > 0:
		class.Cards, class.Share = a.Whole, Whole
	case a.Shared > 0 && cardMiB > 0 && a.ShareMiB <= cardMiB:
		class.Cards, class.Share = a.Shared, Thousandths(a.ShareMiB, cardMiB)
	}
	return class
}

// Thousandths is a part of a GPU, rounded up.
func Thousandths(memoryMiB, cardMiB int64) int64 { return (memoryMiB*Whole + cardMiB - 1) / cardMiB }

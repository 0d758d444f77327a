package gpu

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// MaxGPUs is the maximum number of GPUs on one node: a [Set] has one bit for each.
const MaxGPUs = 64

// Set is a set of a node's GPUs. Bit i stands for the GPU at position i of the node's inventory,
// which is in order of index; it is the GPU of index i only where the indices have no gap.
type Set uint64

// firstPositions returns the set of the first n positions.
func firstPositions(n int) Set { return Set(1)<<n - 1 }

// singleGPU returns the set of one position.
func singleGPU(card int) Set { return Set(1) << card }

// Len returns the number of GPUs in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Has reports whether the GPU at a position is in the set.
func (s Set) Has(card int) bool { return s&singleGPU(card) != 0 }

// First returns the lowest position in the set, or [MaxGPUs] for the empty set.
func (s Set) First() int { return bits.TrailingZeros64(uint64(s)) }

// pop returns the lowest position and the set without it.
func (s Set) pop() (int, Set) { return s.First(), s & (s - 1) }

// afterPosition returns the GPUs of the set behind a position.
func (s Set) afterPosition(card int) Set { return s &^ firstPositions(card+1) }

// All yields the positions in the set, the lowest first.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := s; rest != 0; rest &= rest - 1 {
			if !yield(rest.First()) {
				return
			}
		}
	}
}

// Positions returns the positions in the set, the lowest first.
func (s Set) Positions() []int {
	return slices.AppendSeq(make([]int, 0, s.Len()), s.All())
}

// String returns the positions as ranges, such as "0-3,6", or "none".
func (s Set) String() string {
	if s == 0 {
		return "none"
	}
	var ranges []string
	for s != 0 {
		first := s.First()
		length := bits.TrailingZeros64(^uint64(s >> first))
		s &^= firstPositions(length) << first
		if length == 1 {
			ranges = append(ranges, fmt.Sprint(first))
			continue
		}
		ranges = append(ranges, fmt.Sprintf("%d-%d", first, first+length-1))
	}
	return strings.Join(ranges, ",")
}

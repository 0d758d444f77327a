package gpuscore

import (
	"math/bits"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

const (
	full = fwk.MaxNodeScore

	// compatible is the value of a type that only comes near the one wished for.
	compatible = 70
	// unsuited is the value of an interconnect that works, but would serve another pod better.
	unsuited = 50

	// whole is all of a node's GPUs in basis points, the unit of shares: fine enough that rounding does not
	// make unequal nodes equal.
	whole = 10_000
)

// weights say how much each part counts. Their sum is positive.
type weights struct{ utilization, typeMatch, topology int64 }

// parts are the three values of a node, each 0–100.
type parts struct {
	utilization, typeMatch, topology int64
	// fine is utilization before rounding, in units of fragmentation.Fraction, and inUse decides between nodes that are
	// equal in the parts. Both are for the strategy LeastFragmentation alone.
	fine  int64
	inUse bool
}

// all is the sum of the weights.
func (w weights) all() int64 { return w.utilization + w.typeMatch + w.topology }

// total is the weighted mean of the parts, 0–100.
func (w weights) total(p parts) int64 {
	return (w.utilization*p.utilization + w.typeMatch*p.typeMatch + w.topology*p.topology) / w.all()
}

// fine is the weighted sum of the parts, which tells nodes apart that [weights.total] rounds to the same.
func (w weights) fine(p parts) int64 {
	return w.utilization*p.fine + (w.typeMatch*p.typeMatch+w.topology*p.topology)*fragmentation.Fraction
}

// shareAfter is the share of a node's GPUs that is busy once the pod is there, in basis points. Counts that
// contradict each other, such as more used than there are, give a full or an empty node.
func shareAfter(used, asked, capacity int64) int64 {
	if capacity <= 0 {
		return whole
	}
	used = min(max(used, 0), capacity)
	busy := used + min(max(asked, 0), capacity-used)
	high, low := bits.Mul64(uint64(busy), whole)
	share, _ := bits.Div64(high, low, uint64(capacity))
	return int64(share)
}

// typeByRank values the i-th of n types that a pod accepts, in its order: full for the first, then
// evenly less. A type that is not in the list is worth nothing.
func typeByRank(accepted []string, gpuType string) int64 {
	i := slices.Index(accepted, gpuType)
	if i < 0 {
		return 0
	}
	return full - full*int64(i)/int64(len(accepted))
}

// typeByWish values a type for a pod that only wishes for some: full for its first wish, less for later
// ones but always more than for a type that merely is compatible with one.
func typeByWish(wished []string, compatibleTypes map[string][]string, gpuType string) int64 {
	if i := slices.Index(wished, gpuType); i >= 0 {
		return full - (full-compatible)*int64(i)/int64(len(wished))
	}
	for _, wish := range wished {
		if slices.Contains(compatibleTypes[wish], gpuType) {
			return compatible
		}
	}
	return 0
}

// byInterconnect values an interconnect for a number of whole GPUs: pods of several prefer NVLink, and pods of
// one leave it to them.
func byInterconnect(gpus int64, interconnect string) int64 {
	if (gpus > 1) == (interconnect == names.InterconnectNVLink) {
		return full
	}
	return unsuited
}

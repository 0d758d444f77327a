package gpuscore

import (
	"math/bits"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

// Shares of the score of spreadReplicas. Each outweighs all that follow: an outage is worse than a fragmented node, and among nodes that are
// equal in that, utilization is as with Pack.
const (
	domainShare      = 50
	nodeShare        = 25
	replicaPackShare = maxScore - domainShare - nodeShare
)

// band is a range of shares in basis points.
type band struct{ low, high int64 }

// byShare values the share of busy GPUs by the strategies that look at nothing else, 0–100.
func byShare(strategy configv1.Strategy, target band, share int64) int64 {
	switch strategy {
	case configv1.Spread:
		return (fullShare - share) * maxScore / fullShare
	case configv1.TargetBandStrategy:
		return target.valueOf(share)
	default:
		return share * maxScore / fullShare
	}
}

// valueOf is full within the band, and decreases linearly to 0 for an empty and for a full node.
func (b band) valueOf(share int64) int64 {
	switch {
	case share < b.low:
		return share * maxScore / b.low
	case share > b.high:
		return (fullShare - share) * maxScore / (fullShare - b.high)
	}
	return maxScore
}

// spreadReplicas scores a node for one more replica of a job, 0–100, by the location of the others and by the share of busy GPUs.
func spreadReplicas(bestDomain, bestNode bool, share int64) int64 {
	value := share * replicaPackShare / fullShare
	if bestDomain {
		value += domainShare
	}
	if bestNode {
		value += nodeShare
	}
	return value
}

// holeLevels are the distinct set sizes of fillHoles: 1 or nothing, 2, 4, 8, and 16 or more.
const holeLevels = 5

// fillHoles scores a node by what a pod of some whole GPUs would spoil there, 0–100: the largest power of two of GPUs, above the pod's own size,
// of which the free GPUs make fewer sets with the pod than without. The ninth of nine free GPUs spoils nothing; one of eight spoils a set of 8.
// Among nodes that lose as much, the fuller is better.
func fillHoles(free, asked, share int64) int64 {
	const step = maxScore / holeLevels
	level := min(spoiledLevel(free, asked), holeLevels-1)
	return (holeLevels-1-level)*step + share*step/fullShare
}

// spoiledLevel is the binary logarithm of the largest set lost, 0 for none.
func spoiledLevel(free, asked int64) int64 {
	left := max(free-asked, 0)
	for level := int64(bits.Len64(uint64(max(free, 0)))) - 1; level > 0 && int64(1)<<level > asked; level-- {
		if free>>level > left>>level {
			return level
		}
	}
	return 0
}

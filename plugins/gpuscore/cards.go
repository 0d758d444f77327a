package gpuscore

import "g8s.host/gpu-scheduler/pkg/gpu"

// Costs of losing a set, for a pod of one card: that of the smallest, and more for each size above it.
const (
	setCost  = 20
	sizeCost = 10
)

// scoreGPUs scores the GPUs that Reserve would choose, 0–100, and returns false if there are none for the demand. Pods of several whole GPUs
// prefer well connected ones; pods of one GPU, or of shares, prefer those that are not useful as a set.
func scoreGPUs(a *gpu.Allocator, used *gpu.Used, d *gpu.Demand) (int64, bool) {
	plan, reason := a.Allocate(used, d)
	if !reason.IsZero() {
		return 0, false
	}
	if plan.Whole.Len() > 1 {
		return connectionScore(a, plan.Whole), true
	}
	free := a.FreeGPUs(used)
	lost := largestLost(a.PotentialOf(free), a.PotentialOf(free&^(plan.Whole|plan.Shared)))
	return remainingScore(lost, linkedShare(a, a.HealthyGPUs()) > 0), true
}

// connectionScore scores a set: how close it comes to the best of its size on the node, scaled down to half by the pairs without NVLink, so that
// nodes are comparable.
func connectionScore(a *gpu.Allocator, set gpu.Set) int64 {
	scale := unsuitedScore*fullShare + (maxScore-unsuitedScore)*linkedShare(a, set)
	return a.SetValue(set) * scale / (maxScore * fullShare)
}

// linkedShare is the share of a set's pairs that NVLink connects, in basis points.
func linkedShare(a *gpu.Allocator, set gpu.Set) int64 {
	var linked, pairs int64
	for rest := set; rest != 0; rest &= rest - 1 {
		card := rest & -rest
		for others := rest &^ card; others != 0; others &= others - 1 {
			pairs++
			if a.SlowestPath(card|others&-others) == gpu.PathNVLink {
				linked++
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return linked * fullShare / pairs
}

// largestLost returns the binary logarithm of the largest set size with fewer sets than before, 0 for none.
func largestLost(before, after gpu.Potential) int64 {
	switch {
	case after.Eights < before.Eights:
		return 3
	case after.Fours < before.Fours:
		return 2
	case after.Twos < before.Twos:
		return 1
	}
	return 0
}

// remainingScore scores what a pod of one GPU leaves, by the set that is lost. Sets without NVLink count half.
func remainingScore(lost int64, nvlink bool) int64 {
	if lost == 0 {
		return maxScore
	}
	cost := setCost + sizeCost*lost
	if !nvlink {
		cost /= 2
	}
	return maxScore - cost
}

package gpuscore

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// noGPUs is what a node without GPUs is worth to a pod that needs none, by the strategy LeastFragmentation: more than
// any other node.
const noGPUs = 2*full*fragmentation.Fraction + 2

// worth is what a node is worth to a pod with GPUs: its score, or, where the strategy is LeastFragmentation, a number
// that tells nodes apart more finely than 0–100 can.
func (s *state) worth(p parts) int64 {
	if s.forecast == nil {
		return s.policy.weights.total(p)
	}
	return fragmentation.Rank(s.policy.weights.fine(p), p.inUse)
}

// bestOf is the position of the highest score, the first by name of equals.
func bestOf(scores fwk.NodeScoreList) int {
	best := 0
	for i := range scores {
		if c := scores[i].Score - scores[best].Score; c > 0 || c == 0 && scores[i].Name < scores[best].Name {
			best = i
		}
	}
	return best
}

// NormalizeScore leaves scores as they are, since they are absolute: stretching them over the nodes at hand would turn
// a difference of one point into one of a hundred. Only the strategy LeastFragmentation, whose finer values do not fit
// in 0–100, decides here: the best node alone has 100, the first by name of equals, and the others at most 99.
func (p *Plugin) NormalizeScore(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, err := p.stateOf(cs, pod)
	if err != nil || s.forecast == nil || len(scores) == 0 {
		return nil // of the error, Score has told
	}
	best := bestOf(scores)
	scale := fragmentation.Rank(s.policy.weights.all()*fragmentation.Fraction, false)
	if s.wants.Request.IsZero() {
		scale = fragmentation.Rank(fragmentation.Fraction, false)
	}
	highest := scores[best].Score
	for i := range scores {
		if i == best || scores[i].Score == noGPUs && highest == noGPUs && s.wants.Request.IsZero() {
			scores[i].Score = full // nodes without GPUs are equal to us
			continue
		}
		scores[i].Score = min(scores[i].Score/scale, full-1)
	}
	return nil
}

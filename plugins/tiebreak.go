package plugins

import (
	"context"
	"hash/fnv"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// tieBreaker is a profile that selects among nodes of equal score by a hash of the pod and the node, instead of at random: the same pod on the
// same nodes goes to the same one, in production and in a simulation. Pods differ, so they spread over equal nodes as with random selection.
type tieBreaker struct {
	framework.Framework
	seed uint64
}

// RunScorePlugins scores nodes, and replaces the random numbers by which kube-scheduler ranks equal nodes.
func (t tieBreaker) RunScorePlugins(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := t.Framework.RunScorePlugins(ctx, cs, pod, nodes)
	for i := range scores {
		scores[i].Randomizer = t.rankNode(pod, scores[i].Name)
	}
	return scores, status
}

// rankNode is the rank of a node among equals, of which the highest is taken.
func (t tieBreaker) rankNode(pod *corev1.Pod, node string) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(pod.UID))
	_, _ = hash.Write([]byte{0})
	_, _ = hash.Write([]byte(node))
	// FNV leaves names that differ in the last letter alone close to each other; the generator spreads them.
	return int(rand.NewPCG(t.seed, hash.Sum64()).Uint64() >> 1) //nolint:gosec // no secret, and 63 bits fit
}

package gpuscore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// listed is how many nodes a short list has room for. One is enough as long as it can take the pod; the rest is for
// nodes that other plugins reject, such as those that are cordoned or have no CPU left.
const listed = 16

// kind tells apart the pods that a candidate is not worth the same to. A score must not depend on anything else
// but the node itself, or the ranking that is remembered is wrong.
type kind struct {
	candidates *shortlist.Candidates
	policy     *policy
	// wants is a digest of what the pod says, which has names and may be long.
	wants [sha256.Size]byte
	// ask is that of the state, and generation that of the forecast for the pod's pool, 0 without one.
	ask        fragmentation.Ask
	generation int64
}

// Ends implements shortlist.Kind: policies, forecasts for a pool and the candidates of a pool and type follow one another. Pods
// that need no forecast come beside those that do.
func (k kind) Ends(other kind) bool {
	return k.policy != other.policy || k.candidates.Replaces(other.candidates) ||
		k.generation > 0 && other.generation > 0 && k.ask.Pool == other.ask.Pool && k.generation != other.generation
}

// PreFilter ranks nodes, where the scheduler tries the best of them first. It comes before GPUFilter, which knows the
// nodes, and before GPUReserve, which is told which pods are to be expected. Replicas that are to be spread are not
// ranked: what a node is worth to them depends on where others are.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.Attempts.Of(cs) // counts it, whatever becomes of it
	if p.Devices == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s, err := p.stateOf(cs, pod)
	if err != nil || s.spreadsReplicas() {
		return nil, fwk.NewStatus(fwk.Skip) // of an error, GPUFilter tells
	}
	if err := p.foresee(cs, s, pod); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if list := shortlist.Open(cs); list != nil {
		list.Rank = func(q shortlist.Question) (sets.Set[string], error) { return p.rank(cs, s, q) }
	}
	return nil, fwk.NewStatus(fwk.Skip) // there is nothing to do at Filter
}

// PreFilterExtensions returns nil: PreFilter keeps nothing that pods change.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister returns none: the plugin rejects no pod. Without saying so, a plugin at PreFilter would be asked about
// each event of the cluster.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// rank returns the nodes worth most to the pod. What it finds out is left for Score and for the explanation.
func (p *Plugin) rank(cs fwk.CycleState, s *state, q shortlist.Question) (sets.Set[string], error) {
	wants, err := json.Marshal(s.wants)
	if err != nil {
		return nil, fmt.Errorf("writing what the pod wants: %w", err)
	}
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	of := kind{candidates: q.Candidates, policy: s.policy, wants: sha256.Sum256(wants), ask: s.ask}
	if s.forecasts != nil {
		of.generation = s.forecasts.Generation(s.ask.Pool)
	}
	ranking := p.rankings.Of(of, q, lister)
	ranking.Update(func(node fwk.NodeInfo) int64 {
		if !q.Fits(node) {
			return shortlist.Unfit
		}
		return s.worth(p.partsOf(s, node))
	})
	names := sets.Set[string]{}
	for _, node := range ranking.First(listed) {
		names.Insert(node.Node().Name)
	}
	if names.Len() > 0 {
		countPod(s.wants.Request)
		p.explainRanking(cs, s, ranking)
		cs.Write(stateKey, s)
	}
	return names, nil
}

// explainRanking leaves the best nodes for the explanation, since Score does not see them all.
func (p *Plugin) explainRanking(cs fwk.CycleState, s *state, ranking *shortlist.Ranking) {
	if !p.Explain {
		return
	}
	scores := cycle.NewScores(explain.MaxCandidates, s.policy.weights.explained())
	scores.Weighed(ranking.Fit())
	for _, node := range ranking.Best(explain.MaxCandidates) {
		parts := p.partsOf(s, node)
		scores.Add(node.Node().Name, s.worth(parts), s.policy.weights.total(parts), parts.utilization, parts.typeMatch, parts.topology)
	}
	cs.Write(cycle.ScoresKey, scores)
}

// explained names the parts in the order in which their values are left for the explanation.
func (w weights) explained() []explain.Part {
	return []explain.Part{
		{Name: "utilization", Weight: w.utilization}, {Name: "typeMatch", Weight: w.typeMatch}, {Name: "topology", Weight: w.topology},
	}
}

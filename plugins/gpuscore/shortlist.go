package gpuscore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// shortlistSize is how many nodes of different scores a short list has room for, if other plugins decide. One is enough as long as it can take
// the pod; the others are a reserve for rejections by other plugins.
const shortlistSize = 16

// maxTriedTies is the maximum number of nodes of equal score to try if other plugins decide between them. kube-scheduler considers as many sufficient
// in a cluster of some hundreds.
const maxTriedTies = 100

// podClass identifies pods for which a candidate has the same score. A score must not depend on anything else but the node itself, or cached
// rankings are wrong.
type podClass struct {
	candidates *shortlist.Candidates
	policy     *policy
	// wants is a digest of the pod's wants, which contain names and may be long.
	wants [sha256.Size]byte
	// ask is that of the state. generation is that of the forecast for the pod's pool, 0 without one.
	ask        fragmentation.PodRequest
	generation int64
	// plain is set if only nodes without GPUs are considered.
	plain bool
	// assumed is the assumed standing of all nodes, for replicas that are to be spread.
	assumed replicaStanding
}

// Supersedes implements shortlist.Kind: policies, forecasts for a pool and the candidates of a pool and type supersede one another. Pods that need no
// forecast are interleaved with those that do.
func (k podClass) Supersedes(other podClass) bool {
	return k.policy != other.policy || k.candidates.Replaces(other.candidates) ||
		k.generation > 0 && other.generation > 0 && k.ask.Pool == other.ask.Pool && k.generation != other.generation
}

// PreFilter ranks nodes if the scheduler tries the best of them first. It runs before GPUFilter, which knows the nodes, and before GPUReserve,
// which receives the forecast.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.Attempts.AttemptNumber(cs) // counts the attempt, whatever its result
	if p.Devices == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s, err := p.stateOf(cs, pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Skip) // GPUFilter reports the error
	}
	if err := p.addForecasts(cs, s, pod); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if list := shortlist.Open(cs); list != nil && !isPinned(pod) {
		list.Rank = func(q shortlist.Question) (shortlist.Answer, error) { return p.rankNodes(cs, s, pod, q) }
	}
	return nil, fwk.NewStatus(fwk.Skip) // there is nothing to do at Filter
}

// isPinned reports whether a pod names its nodes, as those of a DaemonSet do. They are few already.
func isPinned(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchFields) > 0
	})
}

// PreFilterExtensions returns nil: PreFilter keeps nothing that pods change.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister returns none: the plugin rejects no pod. Without this method, a plugin at PreFilter would be called for each event of the
// cluster.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// rankNodes returns the best nodes for the pod, and stores its results for Score and for the explanation.
func (p *Plugin) rankNodes(cs fwk.CycleState, s *state, pod *corev1.Pod, q shortlist.Question) (shortlist.Answer, error) {
	wants, err := json.Marshal(s.wants)
	if err != nil {
		return shortlist.Answer{}, fmt.Errorf("writing what the pod wants: %w", err)
	}
	a := &attempt{Plugin: p, state: s, pod: pod, question: q, asks: newNodeRequirements(pod)}
	a.class = podClass{candidates: q.Candidates, policy: s.policy, wants: sha256.Sum256(wants), ask: s.ask}
	if s.forecasts != nil {
		a.class.generation = s.forecasts.Generation(s.ask.Pool)
	}
	answer := a.firstNodes(cs)
	if !answer.IsZero() {
		countPod(s.wants.Request)
		cs.Write(stateKey, s)
	}
	return answer, nil
}

// answerWith returns an answer with some nodes, among which other plugins decide.
func answerWith(nodes []fwk.NodeInfo) shortlist.Answer {
	if len(nodes) == 0 {
		return shortlist.Answer{}
	}
	names := make(sets.Set[string], len(nodes))
	for _, node := range nodes {
		names.Insert(node.Node().Name)
	}
	return shortlist.Answer{Names: names}
}

// attempt ranks nodes for a pod.
type attempt struct {
	*Plugin
	*state
	pod      *corev1.Pod
	question shortlist.Question
	class    podClass
	asks     *nodeRequirements
}

// firstNodes returns the best nodes for the pod that Kubernetes' own plugins would accept by the pod and the node alone.
func (a *attempt) firstNodes(cs fwk.CycleState) shortlist.Answer {
	if a.wants.Request.IsZero() {
		if first := a.firstWithoutGPUs(); len(first) > 0 {
			return answerWith(first)
		}
	}
	if a.spreadsReplicas() {
		return answerWith(a.firstForReplica(cs))
	}
	ranking := a.rankingFor(a.class, a.state)
	var answer shortlist.Answer
	switch {
	case a.forecasts == nil:
		answer = answerWith(a.firstOf(ranking))
	case ranking.CountFitting() == 0:
	case a.reservedBehind == nil: // equal nodes are ranked by name, so other plugins do not decide
		answer.InOrder = ranking.InOrder(1, a.isSuitable)
	default:
		answer.InOrder = ranking.InOrderSparing(1, a.isSuitable, a.takesReservedRoom)
	}
	if !answer.IsZero() {
		a.explainRanking(cs, a.state, ranking)
	}
	return answer
}

// isSuitable reports whether a node is not reserved for others, and Kubernetes' own plugins would accept it by the pod and the node alone.
func (a *attempt) isSuitable(node fwk.NodeInfo) bool {
	return a.asks.areMetBy(node) && (a.question.IsOpen == nil || a.question.IsOpen(node))
}

// firstOf returns the best nodes, without those reserved by later jobs if others have the same score.
func (a *attempt) firstOf(ranking *shortlist.Ranking[nodeState]) []fwk.NodeInfo {
	first, highest := ranking.FirstNodes(a.newTies(maxTriedTies), a.isSuitable)
	if a.reservedBehind == nil {
		return first
	}
	others, value := ranking.FirstNodes(a.newTies(maxTriedTies), func(node fwk.NodeInfo) bool { return a.isSuitable(node) && !a.takesReservedRoom(node) })
	if value == highest {
		return others
	}
	return first
}

// rankingFor returns the up-to-date ranking of the candidates for a class of pods.
func (a *attempt) rankingFor(of podClass, s *state) *shortlist.Ranking[nodeState] {
	ranking := a.rankings.RankingFor(of, a.question, a.handle.SnapshotSharedLister().NodeInfos(), a.stateOfNode)
	known := map[unique.Handle[gpuState]]*nodeValue{}
	ranking.UpdateValues(func(in nodeState, node fwk.NodeInfo) int64 {
		v := known[in.gpus]
		if v == nil {
			v = a.judgeNode(of, s, node)
			known[in.gpus] = v
		}
		return v.valueOn(s, &in.host)
	})
	return ranking
}

// nodeValue is the score of nodes with the same GPUs in the same use, whatever their hosts are like.
type nodeValue struct {
	// worth is the score, if it does not depend on the host.
	worth int64
	// parts and placement determine the score if it depends on the host.
	parts     parts
	placement *placement
}

// judgeNode evaluates a node for all nodes with the same GPUs.
func (a *attempt) judgeNode(of podClass, s *state, node fwk.NodeInfo) *nodeValue {
	switch {
	case of.plain && hasGPUs(node) || !a.question.Fits(node):
		return &nodeValue{worth: shortlist.Unfit}
	case of.plain:
		return &nodeValue{}
	case s.forecasts == nil && s.wants.Request.IsZero() || s.wants.Request.IsZero() && !hasGPUs(node):
		return &nodeValue{worth: a.scoreWithoutGPU(s, node)}
	case s.forecasts == nil:
		return &nodeValue{worth: s.nodeWorth(a.partsOf(s, node))}
	}
	v := &nodeValue{}
	if !s.wants.Request.IsZero() {
		v.parts = a.partsOf(s, node)
		v.worth = s.nodeWorth(v.parts)
	}
	if placed, ok := a.placementOf(s, node); ok {
		v.placement = &placed
	}
	return v
}

// valueOn returns the score for a host.
func (v *nodeValue) valueOn(s *state, host *hostState) int64 {
	if v.placement == nil {
		return v.worth
	}
	value, inUse := v.placement.valueAt(s, host)
	if s.wants.Request.IsZero() {
		return fragmentation.NodeRank(value, inUse)
	}
	p := v.parts
	p.setFine(value, inUse)
	return s.nodeWorth(p)
}

// firstWithoutGPUs returns nodes without GPUs, which all have the same and highest score for a pod that needs none.
func (a *attempt) firstWithoutGPUs() []fwk.NodeInfo {
	plain := podClass{candidates: a.class.candidates, policy: a.class.policy, wants: a.class.wants, plain: true}
	first, _ := a.rankingFor(plain, a.state).FirstNodes(a.newTies(nodesToTry(a.pod, len(a.question.Nodes))), a.isSuitable)
	return first
}

// newTies makes each pod try different nodes if not all equal ones can be tried.
func (a *attempt) newTies(most int) shortlist.Ties {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(a.pod.UID))
	return shortlist.Ties{Size: shortlistSize, Most: most, Turn: hash.Sum64()}
}

// nodesToTry returns how many nodes without GPUs to try: as many as kube-scheduler looks for if percentageOfNodesToScore is not set and the pod has
// preferences.
func nodesToTry(pod *corev1.Pod, nodes int) int {
	if !hasPreferences(pod) {
		return maxTriedTies
	}
	return max(maxTriedTies, nodes*max(50-nodes/125, 5)/100)
}

// hasPreferences reports whether a pod prefers some nodes to others.
func hasPreferences(pod *corev1.Pod) bool {
	if affinity := pod.Spec.Affinity; affinity != nil &&
		(affinity.NodeAffinity != nil && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) {
		return true
	}
	return len(pod.Spec.TopologySpreadConstraints) > 0
}

// explainRanking stores the best nodes for the explanation, since Score does not see them all.
func (p *Plugin) explainRanking(cs fwk.CycleState, s *state, ranking *shortlist.Ranking[nodeState]) {
	if !p.Explain || s.wants.Request.IsZero() {
		return
	}
	scores := cycle.NewScores(explain.MaxCandidates, s.policy.weights.explainedParts())
	scores.SetWeighed(ranking.CountFitting())
	for _, node := range ranking.BestNodes(explain.MaxCandidates, nil) {
		parts := p.partsOf(s, node)
		scores.Add(node.Node().Name, s.nodeWorth(parts), s.policy.weights.weightedMean(parts), parts.utilization, parts.typeMatch, parts.topology)
	}
	cs.Write(cycle.ScoresKey, scores)
}

// explainedParts returns the parts in the order in which their scores are stored for the explanation.
func (w weights) explainedParts() []explain.Part {
	return []explain.Part{
		{Name: "utilization", Weight: w.utilization}, {Name: "typeMatch", Weight: w.typeMatch}, {Name: "topology", Weight: w.topology},
	}
}

package cycle

import (
	"cmp"
	"slices"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/explain"
)

// ScoresKey is where the cycle state holds the [Scores].
const ScoresKey fwk.StateKey = "ExplainScores"

// maxParts is how many parts a score may have.
const maxParts = 8

// Scores collects the scores of the candidates of one scheduling cycle. Nodes are scored concurrently, so adding takes no lock and no memory
// beyond what [NewScores] allocated. nil collects nothing.
type Scores struct {
	parts   []explain.Part // names and weights
	used    atomic.Int64
	weighed int // nodes, including those that are not recorded
	entries []score
}

type score struct {
	node        string
	rank, total int64
	values      [maxParts]int64
}

// NewScores allocates room for a number of nodes. Parts name the parts of a score and their weights, at most eight.
func NewScores(nodes int, parts []explain.Part) *Scores {
	return &Scores{parts: parts[:min(len(parts), maxParts)], weighed: nodes, entries: make([]score, nodes)}
}

// SetWeighed sets the number of scored nodes, if only the best of them are added.
func (s *Scores) SetWeighed(nodes int) { s.weighed = nodes }

// Clone implements fwk.StateData. Scores belong to one cycle and are shared with its clones.
func (s *Scores) Clone() fwk.StateData { return s }

// Add records the score of a node in points and the values of its parts, in the order of the parts. Rank is the value that nodes are compared
// by, which may distinguish nodes with equal points. Nodes beyond the allocated room are ignored.
func (s *Scores) Add(node string, rank, total int64, values ...int64) {
	if s == nil {
		return
	}
	i := s.used.Add(1) - 1
	if i >= int64(len(s.entries)) {
		return
	}
	s.entries[i].node, s.entries[i].rank, s.entries[i].total = node, rank, total
	copy(s.entries[i].values[:], values)
}

// Len returns the number of compared nodes.
func (s *Scores) Len() int {
	if s == nil {
		return 0
	}
	return s.weighed
}

// addedScores returns the recorded scores.
func (s *Scores) addedScores() []score {
	if s == nil {
		return nil
	}
	return s.entries[:min(int(s.used.Load()), len(s.entries))]
}

// BestCandidates returns the candidates with the highest ranks, the best first, equal ones by name. It is called when all nodes are scored.
func (s *Scores) BestCandidates(count int) []explain.Candidate {
	var best []*score
	for i := range s.addedScores() {
		at, _ := slices.BinarySearchFunc(best, &s.entries[i], compareScores)
		if at < count {
			best = slices.Insert(best, at, &s.entries[i])
			best = best[:min(len(best), count)]
		}
	}
	out := make([]explain.Candidate, len(best))
	for i, entry := range best {
		out[i] = explain.Candidate{Node: entry.node, Score: entry.total, Parts: slices.Clone(s.parts)}
		for j := range out[i].Parts {
			out[i].Parts[j].Value = entry.values[j]
		}
	}
	return out
}

func compareScores(a, b *score) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.node, b.node))
}

package cycle

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/explain"
)

var parts = []explain.Part{{Name: "utilization", Weight: 40}, {Name: "topology", Weight: 60}}

func TestBest(t *testing.T) {
	scores := NewScores(4, parts)
	scores.Add("c", 50, 50, 100, 17)
	scores.Add("b", 70, 70, 40, 90)
	scores.Add("a", 50, 50, 30, 63)
	scores.Add("d", 10, 99, 10, 10) // its rank counts, not its points
	got := scores.BestCandidates(3)
	want := []explain.Candidate{
		{Node: "b", Score: 70, Parts: []explain.Part{{Name: "utilization", Value: 40, Weight: 40}, {Name: "topology", Value: 90, Weight: 60}}},
		{Node: "a", Score: 50, Parts: []explain.Part{{Name: "utilization", Value: 30, Weight: 40}, {Name: "topology", Value: 63, Weight: 60}}},
		{Node: "c", Score: 50, Parts: []explain.Part{{Name: "utilization", Value: 100, Weight: 40}, {Name: "topology", Value: 17, Weight: 60}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("best (-want +got):\n%s", diff)
	}
}

func TestBestDoesNotDependOnTheOrderOfScoring(t *testing.T) {
	scores := NewScores(100, nil)
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() { scores.Add(fmt.Sprintf("n%02d", i), int64(i/10), 0) })
	}
	wait.Wait()
	var got []string
	for _, candidate := range scores.BestCandidates(3) {
		got = append(got, candidate.Node)
	}
	if diff := cmp.Diff([]string{"n90", "n91", "n92"}, got); diff != "" {
		t.Errorf("best (-want +got):\n%s", diff)
	}
}

func TestScoresHaveARoom(t *testing.T) {
	scores := NewScores(1, nil)
	scores.Add("a", 1, 1)
	scores.Add("b", 2, 2)
	if got := scores.BestCandidates(5); len(got) != 1 || got[0].Node != "a" || scores.Len() != 1 {
		t.Errorf("got %v and %d nodes, want a alone", got, scores.Len())
	}
}

func TestNilGathersNothing(t *testing.T) {
	var scores *Scores
	scores.Add("a", 1, 1)
	if scores.Len() != 0 || len(scores.BestCandidates(5)) != 0 {
		t.Error("nil scores hold a node")
	}
}

// BenchmarkThousandNodes is what one cycle with a thousand candidates costs.
func BenchmarkThousandNodes(b *testing.B) {
	nodes := make([]string, 1000)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		scores := NewScores(len(nodes), parts)
		for i, node := range nodes {
			scores.Add(node, int64(i%100), int64(i%100), int64(i%100), 50)
		}
		scores.BestCandidates(explain.MaxCandidates)
	}
}

package shortlist

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// snapshot is nodes n0, n1 and so on.
type snapshot []fwk.NodeInfo

func newSnapshot(nodes int) snapshot {
	s := make(snapshot, nodes)
	for i := range s {
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(fmt.Sprint("n", i)).Obj())
		s[i] = info
	}
	return s
}

func (s snapshot) Get(name string) (fwk.NodeInfo, error) {
	for _, node := range s {
		if node.Node().Name == name {
			return node, nil
		}
	}
	return nil, errors.New("not found")
}

// kind is pods of a name, in an age that ends those before it.
type kind struct {
	name string
	age  int
}

func (k kind) Ends(other kind) bool { return k.age > other.age }

func (s snapshot) question(names ...string) Question {
	return Question{Candidates: &Candidates{Names: sets.New(names...)}, Nodes: s}
}

func namesOf(nodes []fwk.NodeInfo) []string {
	names := []string{}
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	return names
}

func TestFirst(t *testing.T) {
	const size = 3
	tests := map[string]struct {
		values      []int64
		first, best []string
	}{
		"the best groups, while they fit": {
			values: []int64{5, 9, 7, 9, 5}, first: []string{"n1", "n2", "n3"}, best: []string{"n1", "n3", "n2"},
		},
		"a group that would be torn apart is left out": {
			values: []int64{5, 9, 5, 9, 5}, first: []string{"n1", "n3"}, best: []string{"n1", "n3", "n0"},
		},
		"the best group is whole, also where it is too large": {
			values: []int64{9, 9, 9, 9, 5}, first: []string{"n0", "n1", "n2", "n3"}, best: []string{"n0", "n1", "n2"},
		},
		"nodes that cannot take the pod are never tried": {
			values: []int64{Unfit, 0, Unfit, Unfit, Unfit}, first: []string{"n1"}, best: []string{"n1"},
		},
		"where nothing fits there is no list": {
			values: []int64{Unfit, Unfit, Unfit, Unfit, Unfit}, first: []string{}, best: []string{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, rankings := newSnapshot(len(tc.values)), Rankings[kind]{}
			ranking := rankings.Of(kind{}, s.question("n0", "n1", "n2", "n3", "n4"), s)
			ranking.Update(func(node fwk.NodeInfo) int64 { return tc.values[node.Node().Name[1]-'0'] })
			if diff := cmp.Diff(tc.first, namesOf(ranking.First(size))); diff != "" {
				t.Errorf("first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.best, namesOf(ranking.Best(size))); diff != "" {
				t.Errorf("best (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatChangedIsJudgedAgain(t *testing.T) {
	s, rankings := newSnapshot(3), Rankings[kind]{}
	q := s.question("n0", "n2", "not yet in the snapshot")
	judged := func(name string, nodes snapshot) (names []string) {
		q.Nodes = nodes
		rankings.Of(kind{name: name}, q, nodes).Update(func(node fwk.NodeInfo) int64 {
			names = append(names, node.Node().Name)
			return 1
		})
		return names
	}
	for _, step := range []struct {
		why, kind string
		nodes     snapshot
		change    func()
		want      []string
	}{
		{why: "nothing is known", kind: "a", nodes: s, want: []string{"n0", "n2"}},
		{why: "nothing changed", kind: "a", nodes: s},
		{why: "a pod came", kind: "a", nodes: s, change: func() { s[2].(*framework.NodeInfo).AddPod(st.MakePod().Obj()) }, want: []string{"n2"}},
		{why: "pods of another kind", kind: "b", nodes: s, want: []string{"n0", "n2"}},
		{why: "the snapshot has other nodes", kind: "a", nodes: newSnapshot(3), want: []string{"n0", "n2"}},
	} {
		if step.change != nil {
			step.change()
		}
		if diff := cmp.Diff(step.want, judged(step.kind, step.nodes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
}

// TestWhatIsOutOfDateIsForgotten counts what is remembered after each of some questions.
func TestWhatIsOutOfDateIsForgotten(t *testing.T) {
	s, rankings := newSnapshot(3), Rankings[kind]{}
	type held struct{ Kinds, Nodes int }
	for _, step := range []struct {
		why   string
		kind  kind
		nodes snapshot
		names []string
		want  held
	}{
		{why: "the first kind", kind: kind{name: "a"}, nodes: s, names: []string{"n0", "n1"}, want: held{1, 2}},
		{why: "another kind", kind: kind{name: "b"}, nodes: s, names: []string{"n0"}, want: held{2, 3}},
		{why: "a known kind", kind: kind{name: "a"}, nodes: s, names: []string{"n0", "n1"}, want: held{2, 3}},
		{why: "a kind that ends the others", kind: kind{name: "a", age: 1}, nodes: s, names: []string{"n2"}, want: held{1, 1}},
		{why: "a kind beside it", kind: kind{name: "b", age: 1}, nodes: s, names: []string{"n0"}, want: held{2, 2}},
		{why: "a node has gone, and no ranking keeps it", kind: kind{name: "b", age: 1}, nodes: newSnapshot(2), names: []string{"n0"}, want: held{1, 1}},
	} {
		rankings.Of(step.kind, step.nodes.question(step.names...), step.nodes)
		if diff := cmp.Diff(step.want, held{len(rankings.known), rankings.nodes}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
}

// TestTheKindsAskedForLastAreRemembered fills the rankings by number and by nodes.
func TestTheKindsAskedForLastAreRemembered(t *testing.T) {
	s := newSnapshot(1)
	q := s.question("n0")
	rankings := Rankings[kind]{}
	often := rankings.Of(kind{name: "often"}, q, s)
	for i := range 2 * maxKinds {
		rankings.Of(kind{name: fmt.Sprint(i)}, q, s)
		if rankings.Of(kind{name: "often"}, q, s) != often {
			t.Fatalf("after %d kinds, the one asked for all the time is forgotten", i)
		}
	}
	if len(rankings.known) != maxKinds || rankings.nodes != maxKinds {
		t.Errorf("%d kinds of one node each and %d nodes, want %d", len(rankings.known), rankings.nodes, maxKinds)
	}

	rankings = Rankings[kind]{known: map[kind]*Ranking{}, all: q.Nodes, nodes: maxNodes}
	for i := range 2 {
		rankings.known[kind{name: fmt.Sprint(i)}] = &Ranking{nodes: make([]fwk.NodeInfo, maxNodes/2), asked: int64(i)}
	}
	rankings.asked = 2
	rankings.Of(kind{name: "one more"}, q, s)
	if _, kept := rankings.known[kind{name: "1"}]; !kept || len(rankings.known) != 2 || rankings.nodes != maxNodes/2+1 {
		t.Errorf("%d kinds and %d nodes, the last but one among them: %v; want only the oldest forgotten", len(rankings.known), rankings.nodes, kept)
	}
}

func TestAnAttempt(t *testing.T) {
	cs := framework.NewCycleState()
	if Open(cs) != nil || Repeated(cs) {
		t.Error("there is a list that nobody offered")
	}
	if names, err := Open(cs).Take(Question{}); names != nil || err != nil {
		t.Errorf("names %v, %v of no list, want all nodes", names, err)
	}
	list := Offer(cs)
	if names, err := Open(cs).Take(Question{}); names != nil || err != nil || list.Used() {
		t.Errorf("names %v, %v that nobody ranked, want all nodes", names, err)
	}
	Open(cs).Rank = func(Question) (sets.Set[string], error) { return sets.New("n"), nil }
	if names, err := Open(cs).Take(Question{}); !names.Has("n") || err != nil || !list.Used() {
		t.Errorf("names %v, %v, want the one ranked", names, err)
	}
	list.Withdraw()
	if Open(cs) != nil || !Repeated(cs) {
		t.Error("the list is open after it was withdrawn")
	}
}

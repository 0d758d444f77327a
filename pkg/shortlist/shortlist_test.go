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

func (s snapshot) question(names ...string) Question {
	return Question{Cell: &Cell{Names: sets.New(names...)}, Nodes: s}
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
			s, rankings := newSnapshot(len(tc.values)), Rankings[string]{}
			ranking := rankings.Of("kind", s.question("n0", "n1", "n2", "n3", "n4"), s)
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
	s, rankings := newSnapshot(3), Rankings[string]{}
	q := s.question("n0", "n2", "not yet in the snapshot")
	judged := func(kind string, nodes snapshot) (names []string) {
		q.Nodes = nodes
		rankings.Of(kind, q, nodes).Update(func(node fwk.NodeInfo) int64 {
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
	if rankings.nodes != 4 {
		t.Errorf("%d nodes are remembered, want 2 for each of 2 kinds", rankings.nodes)
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

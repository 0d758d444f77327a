package shortlist

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"g8s.host/gpu-scheduler/pkg/cycle"
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

func (k kind) Supersedes(other kind) bool { return k.age > other.age }

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

// stateOf is what a node of a snapshot is worth in these tests, by the number in its label.
func stateOf(node fwk.NodeInfo) string { return node.Node().Labels["state"] }

// inStates is a snapshot of nodes in these states.
func inStates(states ...string) snapshot {
	s := newSnapshot(len(states))
	for i, state := range states {
		s.change(i, state)
	}
	return s
}

// change puts a node in another state.
func (s snapshot) change(i int, state string) {
	s[i].(*framework.NodeInfo).SetNode(st.MakeNode().Name(fmt.Sprint("n", i)).Label("state", state).Obj())
}

// worth reads the value of a state: its first digit, or Unfit.
func worth(node fwk.NodeInfo) int64 {
	if state := stateOf(node); state != "" {
		return int64(state[0] - '0')
	}
	return Unfit
}

// worthIn does so without a look at the node.
func worthIn(state string, node fwk.NodeInfo) int64 {
	if state != stateOf(node) {
		return -3
	}
	return worth(node)
}

func TestWhichNodesAreFirst(t *testing.T) {
	tests := map[string]struct {
		states      []string
		suits       func(fwk.NodeInfo) bool
		first, best []string
	}{
		"the best groups, while they fit": {
			states: []string{"5", "9", "7", "9", "5"}, first: []string{"n1", "n3", "n2"}, best: []string{"n1", "n3", "n2"},
		},
		"a group that would be torn apart is left out": {
			states: []string{"5", "9", "5", "9", "5"}, first: []string{"n1", "n3"}, best: []string{"n1", "n3", "n0"},
		},
		"the best group is whole, also where it is too large": {
			states: []string{"9", "9", "9", "9", "5"}, first: []string{"n0", "n1", "n2", "n3"}, best: []string{"n0", "n1", "n2"},
		},
		"states of one value are one group, in order of name": {
			states: []string{"9b", "9a", "9c", "9a", "5"}, first: []string{"n0", "n1", "n2", "n3"}, best: []string{"n0", "n1", "n2"},
		},
		"nodes that cannot take the pod are never tried": {
			states: []string{"", "0", "", "", ""}, first: []string{"n1"}, best: []string{"n1"},
		},
		"where nothing fits there is no list": {
			states: []string{"", "", "", "", ""}, first: []string{}, best: []string{},
		},
		"nodes that do not suit make room for worse ones": {
			states: []string{"9", "8", "7", "6", "5"}, suits: func(n fwk.NodeInfo) bool { return n.Node().Name > "n1" },
			first: []string{"n2", "n3", "n4"}, best: []string{"n2", "n3", "n4"},
		},
		"where none suits there is no list": {
			states: []string{"9", "8", "7", "6", "5"}, suits: func(fwk.NodeInfo) bool { return false },
			first: []string{}, best: []string{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, rankings := inStates(tc.states...), Rankings[kind, string]{}
			ranking := rankings.RankingFor(kind{}, s.question("n0", "n1", "n2", "n3", "n4"), s, stateOf)
			ranking.UpdateValues(worthIn)
			first, highest := ranking.FirstNodes(Ties{Size: 3, Most: 4}, tc.suits)
			if diff := gocmp.Diff(tc.first, namesOf(first)); diff != "" {
				t.Errorf("first (-want +got):\n%s", diff)
			}
			if len(first) > 0 && highest != worth(first[0]) || len(first) == 0 && highest != Unfit || tc.suits == nil && highest != ranking.HighestValue() {
				t.Errorf("the highest value is %d, of all %d", highest, ranking.HighestValue())
			}
			if diff := gocmp.Diff(tc.best, namesOf(ranking.BestNodes(3, tc.suits))); diff != "" {
				t.Errorf("best (-want +got):\n%s", diff)
			}
			suits := tc.suits
			if suits == nil {
				suits = func(fwk.NodeInfo) bool { return true }
			}
			inOrder := slices.Collect(ranking.InOrder(1, suits))
			if diff := gocmp.Diff(namesOf(ranking.BestNodes(5, suits)), namesOf(inOrder)); diff != "" {
				t.Errorf("in order (-best +in order):\n%s", diff)
			}
			fit := 0
			for range ranking.FittingNodes() {
				fit++
			}
			if fit != ranking.CountFitting() {
				t.Errorf("%d nodes fit, and %d are listed", ranking.CountFitting(), fit)
			}
		})
	}
}

// TestTheOrderIsThatOfValueAndName compares what is found of many states, or few, with all nodes sorted.
func TestTheOrderIsThatOfValueAndName(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for _, states := range []int{1, 3, 40, 400} {
		s := newSnapshot(500)
		value := map[string]int64{}
		for i := range s {
			state := fmt.Sprint(r.IntN(states))
			if value[state] == 0 {
				value[state] = 1 + r.Int64N(int64(states))
			}
			s.change(i, state)
		}
		rankings := Rankings[kind, string]{}
		ranking := rankings.RankingFor(kind{}, Question{Candidates: &Candidates{}, Nodes: s}, s, stateOf)
		ranking.UpdateValues(func(state string, _ fwk.NodeInfo) int64 { return value[state] - 1 }) // some are worth nothing and fit
		sorted := slices.SortedFunc(slices.Values(s), func(a, b fwk.NodeInfo) int {
			return cmp.Or(cmp.Compare(value[stateOf(b)], value[stateOf(a)]), cmp.Compare(a.Node().Name, b.Node().Name))
		})
		for _, count := range []int{1, 5, 64, 65, 500} {
			if diff := gocmp.Diff(namesOf(sorted[:count]), namesOf(ranking.BestNodes(count, nil))); diff != "" {
				t.Errorf("the best %d of %d states (-want +got):\n%s", count, states, diff)
			}
		}
		all := slices.Collect(ranking.InOrder(1, func(fwk.NodeInfo) bool { return true }))
		if diff := gocmp.Diff(namesOf(sorted), namesOf(all)); diff != "" {
			t.Errorf("all of %d states in order (-want +got):\n%s", states, diff)
		}
	}
}

// TestOfManyEqualsSomeAreTried: they are spread over the list, other pods get others, and those that do not suit are made
// up for.
func TestOfManyEqualsSomeAreTried(t *testing.T) {
	s := newSnapshot(100)
	for i := range s {
		s.change(i, "9")
	}
	rankings := Rankings[kind, string]{}
	ranking := rankings.RankingFor(kind{}, Question{Candidates: &Candidates{}, Nodes: s}, s, stateOf)
	ranking.UpdateValues(worthIn)
	first := func(turn uint64, suits func(fwk.NodeInfo) bool) []string {
		nodes, _ := ranking.FirstNodes(Ties{Size: 16, Most: 5, Turn: turn}, suits)
		return namesOf(nodes)
	}
	// In order of name: n0, n1, n10, n11, ...
	if diff := gocmp.Diff([]string{"n0", "n66", "n32", "n9", "n56"}, first(0, nil)); diff != "" {
		t.Errorf("some of 100 (-want +got):\n%s", diff)
	}
	if gocmp.Equal(first(0, nil), first(1, nil)) {
		t.Error("another pod is tried on the same")
	}
	last := func(n fwk.NodeInfo) bool { return n.Node().Name >= "n96" }
	if diff := gocmp.Diff([]string{"n96", "n97", "n98", "n99"}, slices.Sorted(slices.Values(first(7, last)))); diff != "" {
		t.Errorf("the four that suit (-want +got):\n%s", diff)
	}
}

// TestSomeOfManyAreOfEachZone as there are nodes of it, however zones follow one another in the order of names, so that other plugins can spread
// pods over zones.
func TestSomeOfManyAreOfEachZone(t *testing.T) {
	const most = 100
	for _, nodes := range []int{101, 300, 999, 1000, 1024, 5000} {
		equals := make([]fwk.NodeInfo, nodes)
		position := map[fwk.NodeInfo]int{}
		for i := range equals {
			equals[i] = framework.NewNodeInfo()
			position[equals[i]] = i
		}
		for zones := 2; zones <= 10; zones++ {
			for way, zoneOf := range map[string]func(int) int{
				"in turn":             func(i int) int { return i % zones },
				"one after the other": func(i int) int { return i * zones / nodes },
			} {
				ties, count := Ties{Size: 16, Most: most, Turn: 12345}, make([]int, zones)
				some := ties.selectTied(equals, nil)
				for _, node := range some {
					count[zoneOf(position[node])]++
				}
				if least := slices.Min(count); len(some) != most || least < most/zones*2/3 {
					t.Errorf("of %d nodes in %d zones %s, %d are tried, of zones %v", nodes, zones, way, len(some), count)
				}
			}
		}
	}
}

func TestOnlyNewStatesAreJudged(t *testing.T) {
	s, rankings := inStates("1", "2", "3"), Rankings[kind, string]{}
	q := s.question("n0", "n2", "not yet in the snapshot")
	judged := func(name string, nodes snapshot) (names []string) {
		q.Nodes = nodes
		rankings.RankingFor(kind{name: name}, q, nodes, stateOf).UpdateValues(func(_ string, node fwk.NodeInfo) int64 {
			names = append(names, node.Node().Name)
			return worth(node)
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
		{why: "a node is in a new state", kind: "a", nodes: s, change: func() { s.change(2, "4") }, want: []string{"n2"}},
		{why: "a node changed, and its state did not", kind: "a", nodes: s, change: func() { s.change(2, "4") }},
		{why: "a node is in a state that was known before", kind: "a", nodes: s, change: func() { s.change(2, "3") }},
		{why: "pods of another kind", kind: "b", nodes: s, want: []string{"n0", "n2"}},
		{why: "a node comes back to a state that these pods have not met", kind: "b", nodes: s, change: func() { s.change(2, "4") }, want: []string{"n2"}},
		{why: "the snapshot has other nodes", kind: "a", nodes: inStates("1", "2", "3"), want: []string{"n0", "n2"}},
	} {
		if step.change != nil {
			step.change()
		}
		if diff := gocmp.Diff(step.want, judged(step.kind, step.nodes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
}

// TestChangesThatAreToldAreEnough changes nodes at random, a few or many between two questions, and asks for the best with
// and without being told which they are.
func TestChangesThatAreToldAreEnough(t *testing.T) {
	s, r := newSnapshot(50), rand.New(rand.NewPCG(1, 2))
	var told, afresh Rankings[kind, string]
	changes := &cycle.Changes{}
	q := Question{Candidates: &Candidates{}, Nodes: s, Changes: changes}
	for step := range 500 {
		for range []int{0, 1, 1, 3, 40}[r.IntN(5)] {
			i := r.IntN(len(s))
			s.change(i, fmt.Sprint(1+r.IntN(9), "-", r.IntN(3)))
			changes.RecordNode(fmt.Sprint("n", i))
		}
		changes.RecordNode("of another pool")
		changes.RecordSnapshot()
		age := step / 100 // where nodes are forgotten between
		ranking := told.RankingFor(kind{age: age}, q, s, stateOf)
		ranking.UpdateValues(worthIn)
		full := afresh.RankingFor(kind{age: age}, Question{Candidates: q.Candidates, Nodes: s}, s, stateOf)
		full.UpdateValues(worthIn)
		if diff := gocmp.Diff(namesOf(full.BestNodes(50, nil)), namesOf(ranking.BestNodes(50, nil))); diff != "" {
			t.Fatalf("step %d (-all looked at +told):\n%s", step, diff)
		}
	}
}

// TestStatesOfThePastAreForgotten has a node go through thousands of states, and looks at what is best each time.
func TestStatesOfThePastAreForgotten(t *testing.T) {
	s, rankings := inStates("5", "5"), Rankings[kind, string]{}
	q := s.question("n0", "n1")
	for i := range 2000 {
		s.change(1, fmt.Sprint(1+i%9, "-", i))
		ranking := rankings.RankingFor(kind{}, q, s, stateOf)
		ranking.UpdateValues(worthIn)
		want := "n0"
		if 1+i%9 > 5 {
			want = "n1"
		}
		if got := namesOf(ranking.BestNodes(1, nil)); got[0] != want {
			t.Fatalf("in state %d %s is the best, want %s", i, got[0], want)
		}
		if known := len(ranking.table.numbers); known > 100 {
			t.Fatalf("%d states are remembered of two nodes", known)
		}
	}
}

// TestWhatIsOutOfDateIsForgotten counts what is remembered after each of some questions.
func TestWhatIsOutOfDateIsForgotten(t *testing.T) {
	s, rankings := newSnapshot(3), Rankings[kind, string]{}
	type held struct{ Kinds, Tables int }
	x, y := s.question("n0", "n1"), s.question("n0")
	for _, step := range []struct {
		why   string
		kind  kind
		q     Question
		nodes snapshot
		want  held
	}{
		{why: "the first kind", kind: kind{name: "a"}, nodes: s, q: x, want: held{1, 1}},
		{why: "another kind", kind: kind{name: "b"}, nodes: s, q: y, want: held{2, 2}},
		{why: "a kind of the same nodes", kind: kind{name: "c"}, nodes: s, q: y, want: held{3, 2}},
		{why: "a known kind", kind: kind{name: "a"}, nodes: s, q: x, want: held{3, 2}},
		{why: "a kind that ends the others, and their nodes with them", kind: kind{name: "a", age: 1}, nodes: s, q: s.question("n2"), want: held{1, 1}},
		{why: "a kind beside it", kind: kind{name: "b", age: 1}, nodes: s, q: y, want: held{2, 2}},
		{why: "a node has gone, and no ranking keeps it", kind: kind{name: "b", age: 1}, nodes: newSnapshot(2), q: y, want: held{1, 1}},
	} {
		step.q.Nodes = step.nodes
		rankings.RankingFor(step.kind, step.q, step.nodes, stateOf)
		if diff := gocmp.Diff(step.want, held{len(rankings.known), len(rankings.tables)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
	}
}

// TestTheKindsAskedForLastAreRemembered fills the rankings by number and by values.
func TestTheKindsAskedForLastAreRemembered(t *testing.T) {
	s := newSnapshot(1)
	q := s.question("n0")
	rankings := Rankings[kind, string]{}
	often := rankings.RankingFor(kind{name: "often"}, q, s, stateOf)
	for i := range 2 * maxKinds {
		rankings.RankingFor(kind{name: fmt.Sprint(i)}, q, s, stateOf)
		if rankings.RankingFor(kind{name: "often"}, q, s, stateOf) != often {
			t.Fatalf("after %d kinds, the one asked for all the time is forgotten", i)
		}
	}
	if len(rankings.known) != maxKinds {
		t.Errorf("%d kinds, want %d", len(rankings.known), maxKinds)
	}
	for _, r := range rankings.known {
		r.values = make([]int64, 2*maxValues/maxKinds)
	}
	rankings.RankingFor(kind{name: "one more"}, q, s, stateOf)
	if _, kept := rankings.known[kind{name: "often"}]; !kept || len(rankings.known) > maxKinds/2+1 {
		t.Errorf("%d kinds are left with twice the values that there is room for, the last among them: %t", len(rankings.known), kept)
	}
}

// BenchmarkBest is one of 5,000 nodes that changed, and the best 16.
func BenchmarkBest(b *testing.B) {
	for _, states := range []int{1, 50, 5000} {
		b.Run(fmt.Sprint("states=", states), func(b *testing.B) {
			s, rankings := newSnapshot(5000), Rankings[kind, string]{}
			for i := range s {
				s.change(i, fmt.Sprint(i%9, "-", i%states))
			}
			q := Question{Candidates: &Candidates{}, Nodes: s}
			value := func(_ string, node fwk.NodeInfo) int64 { return int64(len(node.Node().Name)) * worth(node) }
			for i := 0; b.Loop(); i++ {
				s.change(i%len(s), fmt.Sprint(i%9, "-", i%states))
				ranking := rankings.RankingFor(kind{}, q, s, stateOf)
				ranking.UpdateValues(value)
				ranking.BestNodes(16, nil)
			}
		})
	}
}

func TestAnAttempt(t *testing.T) {
	cs := framework.NewCycleState()
	if Open(cs) != nil || IsRepeated(cs) || Open(cs).InOrder() != nil {
		t.Error("there is a list that nobody offered")
	}
	if answer, err := Open(cs).FirstNodes(Question{}); !answer.IsZero() || err != nil {
		t.Errorf("%v, %v of no list, want all nodes", answer, err)
	}
	list := Offer(cs)
	if answer, err := Open(cs).FirstNodes(Question{}); !answer.IsZero() || err != nil || list.IsUsed() {
		t.Errorf("%v, %v that nobody ranked, want all nodes", answer, err)
	}
	Open(cs).Rank = func(Question) (Answer, error) { return Answer{}, errors.New("no") }
	if _, err := Open(cs).FirstNodes(Question{}); err == nil || list.IsUsed() {
		t.Error("an answer that failed is used")
	}
	Open(cs).Rank = func(Question) (Answer, error) { return Answer{Names: sets.New("n")}, nil }
	if answer, err := Open(cs).FirstNodes(Question{}); !answer.Names.Has("n") || err != nil || !list.IsUsed() || list.InOrder() != nil {
		t.Errorf("%v, %v, want the one ranked", answer, err)
	}
	Open(cs).Rank = func(Question) (Answer, error) { return Answer{InOrder: slices.Values(newSnapshot(2))}, nil }
	if _, err := Open(cs).FirstNodes(Question{}); err != nil || !list.IsUsed() {
		t.Errorf("an order is not used: %v", err)
	}
	if diff := gocmp.Diff([]string{"n0", "n1"}, namesOf(slices.Collect(list.InOrder()))); diff != "" {
		t.Errorf("in order (-want +got):\n%s", diff)
	}
	list.Withdraw()
	if Open(cs) != nil || !IsRepeated(cs) {
		t.Error("the list is open after it was withdrawn")
	}
}

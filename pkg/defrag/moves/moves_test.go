package moves_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/defrag/moves"
)

// box is a pod that needs so much of two resources.
type box struct {
	name      string
	gpus, cpu int
	fixed     bool
}

// shelves are nodes with boxes, the plainest cluster there is.
type shelves struct {
	gpus, cpu []int // free
	on        [][]*box
}

// stack returns a cluster from a drawing: nodes apart by blanks, "gpus/cpu:name=gpus/cpu,name=gpus/cpu", where ! keeps a
// pod where it is.
func stack(t *testing.T, drawing string) *shelves {
	t.Helper()
	s := &shelves{}
	for node, text := range strings.Fields(drawing) {
		capacity, boxes, _ := strings.Cut(text, ":")
		s.gpus, s.cpu, s.on = append(s.gpus, 0), append(s.cpu, 0), append(s.on, nil)
		scan(t, capacity, &s.gpus[node], &s.cpu[node])
		for name := range strings.SplitSeq(boxes, ",") {
			if name, size, ok := strings.Cut(name, "="); ok {
				b := &box{name: strings.TrimSuffix(name, "!"), fixed: strings.HasSuffix(name, "!")}
				scan(t, size, &b.gpus, &b.cpu)
				s.on[node] = append(s.on[node], b)
				s.count(b, node, -1)
			}
		}
	}
	return s
}

func scan(t *testing.T, text string, gpus, cpu *int) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "%d/%d", gpus, cpu); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
}

// String shows what is free and who is where.
func (s *shelves) String() string {
	var nodes []string
	for node := range s.on {
		text := fmt.Sprintf("%d/%d free", s.gpus[node], s.cpu[node])
		for _, b := range s.on[node] {
			text += fmt.Sprintf(" %s=%d/%d", b.name, b.gpus, b.cpu)
			if b.fixed {
				text += "!"
			}
		}
		nodes = append(nodes, text)
	}
	return strings.Join(nodes, "; ")
}

func (s *shelves) count(b *box, node, sign int) {
	s.gpus[node] += sign * b.gpus
	s.cpu[node] += sign * b.cpu
}

func (s *shelves) CountNodes() int { return len(s.on) }

func (s *shelves) MovablePods(node int) []*box {
	movable := slices.DeleteFunc(slices.Clone(s.on[node]), func(b *box) bool { return b.fixed })
	slices.SortStableFunc(movable, func(a, b *box) int { return b.gpus - a.gpus })
	return movable
}

func (s *shelves) FitsOn(b *box, node int) bool {
	return b.gpus <= s.gpus[node] && b.cpu <= s.cpu[node]
}

func (s *shelves) NodesWithRoom(b *box, but int) []int {
	var rooms []int
	for node := range s.on {
		if node != but && s.FitsOn(b, node) {
			rooms = append(rooms, node)
		}
	}
	slices.SortStableFunc(rooms, func(a, b int) int { return s.gpus[a] - s.gpus[b] })
	return rooms
}

func (s *shelves) PlacePod(b *box, node int) func() {
	s.count(b, node, -1)
	return func() { s.count(b, node, 1) }
}

func (s *shelves) RemovePod(b *box, node int) func() {
	s.count(b, node, 1)
	return func() { s.count(b, node, -1) }
}

func (s *shelves) FreeMilli(node int) int64 { return int64(s.gpus[node]) * 1000 }

func (s *shelves) PodMilli(b *box) int64 { return int64(b.gpus) * 1000 }

func (s *shelves) PodClass(b *box) int { return b.gpus<<8 | b.cpu }

const amplyMany = 1 << 22

func TestFind(t *testing.T) {
	tests := map[string]struct {
		cluster string
		pod     box
		limits  moves.Limits
		want    string
	}{
		"the only pod in the way goes where room is": {
			cluster: "8/8:a=1/1 8/8:b=7/1", pod: box{gpus: 8}, want: "node 0: a 0->1",
		},
		"fewer moves count more than fewer GPUs": {
			cluster: "4/8:a=1/1,b=1/1 4/8:c=3/1 3/8", pod: box{gpus: 4}, want: "node 1: c 1->2",
		},
		"among as few, those of fewer GPUs": {
			cluster: "4/8:c=3/1 4/8:b=2/1 3/8", pod: box{gpus: 4}, want: "node 1: b 1->2",
		},
		"who can stay stays": {
			cluster: "8/8:a=4/1,b=2/1,c=1/1 4/8", pod: box{gpus: 5}, want: "node 0: a 0->1",
		},
		"a pod without GPUs is in the way by its CPU": {
			cluster: "8/8:a=0/6 0/8", pod: box{gpus: 8, cpu: 8}, want: "node 0: a 0->1",
		},
		"the one that needs little CPU leaves the room with much to the other": {
			cluster: "2/8:a=1/1,b=1/6 1/1 1/6", pod: box{gpus: 2}, want: "node 0: a 0->1, b 0->2",
		},
		"the fullest node is no choice when another needs its room": {
			cluster: "2/8:a=1/1,b=1/6 1/6 1/1,x=0/1!", pod: box{gpus: 2}, want: "node 0: a 0->2, b 0->1",
		},
		"a chain makes room where CPU is short": {
			cluster: "1/8:a=1/4 1/4:b=1/1 1/1", pod: box{gpus: 1, cpu: 8}, want: "node 0: b 1->2, a 0->1",
		},
		"two go so that one larger can take their place": {
			cluster: "2/8:a=2/1 2/4:b=1/1,c=1/1 1/1 1/1", pod: box{gpus: 2, cpu: 8}, want: "node 0: b 1->2, c 1->3, a 0->1",
		},
		"who goes first takes the room on a node on the way that is left over": {
			cluster: "3/7:f=2/3 2/6:d=1/1 2/2:h=0/2", pod: box{gpus: 3, cpu: 1}, want: "node 0: h 2->1, d 1->2, f 0->1",
		},
		"but not room that is there only when others have left": {
			cluster: "3/7:f=2/3 2/4:d=1/1 2/4:h=0/4", pod: box{gpus: 3, cpu: 1}, want: "",
		},
		"no room for any": {
			cluster: "2/8:a=1/1 2/8:b=1/1!,c=1/1!", pod: box{gpus: 2}, want: "",
		},
		"no more than the limit": {
			cluster: "2/8:a=1/1,b=1/1 2/8", pod: box{gpus: 2, cpu: 8}, limits: moves.Limits{Moves: 1, Tries: amplyMany}, want: "",
		},
		"no more tries than the limit": {
			cluster: "8/8:a=1/1 8/8:b=7/1", pod: box{gpus: 8}, limits: moves.Limits{Moves: 4}, want: "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.limits == (moves.Limits{}) {
				tc.limits = moves.Limits{Moves: 8, Tries: amplyMany}
			}
			plan, ok := moves.Find(stack(t, tc.cluster), &tc.pod, tc.limits)
			got := ""
			if ok {
				got = draw(plan)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func draw(plan moves.Plan[*box]) string {
	var steps []string
	for _, m := range plan.Moves {
		steps = append(steps, fmt.Sprintf("%s %d->%d", m.Pod.name, m.From, m.To))
	}
	return fmt.Sprintf("node %d: %s", plan.Node, strings.Join(steps, ", "))
}

// TestFindAgreesWithExhaustion compares the number of moves with that of a search through all sequences of moves, and
// makes the moves one at a time.
func TestFindAgreesWithExhaustion(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	const rounds = 3000
	helped, worse := 0, 0
	for range rounds {
		s, pod := anyShelves(random), &box{gpus: 1 + random.IntN(4), cpu: 1 + random.IntN(6)}
		if len(s.NodesWithRoom(pod, -1)) > 0 {
			continue
		}
		const most = 4
		want, got := exhaust(s, pod, most), -1
		plan, ok := moves.Find(s, pod, moves.Limits{Moves: most, Tries: amplyMany})
		if ok {
			helped++
			got = len(plan.Moves)
			carryOut(t, s, pod, plan)
		}
		switch {
		case got == want:
		case want < 0 || ok && got < want:
			t.Errorf("%s, and all sequences of moves were tried: %s", draw(plan), s)
		default:
			worse++
			t.Logf("%s, and %d are enough for %v: %s", draw(plan), want, *pod, s)
		}
	}
	// In whose place a pod fits is asked once, of the pods where they are in the beginning. Where several have to leave a
	// node, and take the places of others there, that can be one too few: about 1 in 3,000 of those that are helped.
	if helped == 0 || worse > 1+helped/100 {
		t.Errorf("%d clusters are helped, and %d others could be, or with fewer moves", helped, worse)
	}
}

// anyShelves returns a small cluster that is nearly full.
func anyShelves(random *rand.Rand) *shelves {
	s := &shelves{}
	for range 2 + random.IntN(3) {
		s.gpus, s.cpu, s.on = append(s.gpus, 1+random.IntN(4)), append(s.cpu, 2+random.IntN(8)), append(s.on, nil)
	}
	for i := range 8 {
		b := &box{name: string(rune('a' + i)), gpus: random.IntN(3), cpu: 1 + random.IntN(3), fixed: random.IntN(8) == 0}
		if node := random.IntN(len(s.on)); s.FitsOn(b, node) {
			s.on[node] = append(s.on[node], b)
			s.count(b, node, -1)
		}
	}
	return s
}

// exhaust is the least number of moves, up to a limit, after which a pod fits on a node to which none of them led; -1 if
// there is none.
func exhaust(s *shelves, pod *box, most int) int {
	e := exhaustion{shelves: s, pod: pod, at: map[*box]int{}}
	for node := range s.on {
		for _, b := range s.on[node] {
			e.at[b] = node
			if !b.fixed {
				e.pods = append(e.pods, b)
			}
		}
	}
	for total := 1; total <= most; total++ {
		for e.target = range s.on {
			e.seen = map[string]bool{}
			if e.reach(total) {
				return total
			}
		}
	}
	return -1
}

// exhaustion tries all sequences of moves.
type exhaustion struct {
	*shelves
	pod    *box
	target int
	pods   []*box
	at     map[*box]int
	seen   map[string]bool
}

// reach reports whether a number of moves is enough.
func (e *exhaustion) reach(left int) bool {
	if e.FitsOn(e.pod, e.target) {
		return true
	}
	state := []byte{byte(left)}
	for _, b := range e.pods {
		state = append(state, byte(e.at[b]))
	}
	if left == 0 || e.seen[string(state)] {
		return false
	}
	e.seen[string(state)] = true
	for _, b := range e.pods {
		for _, to := range e.NodesWithRoom(b, e.target) {
			from := e.at[b]
			back, away := e.RemovePod(b, from), e.PlacePod(b, to)
			e.at[b] = to
			found := e.reach(left - 1)
			away()
			back()
			if e.at[b] = from; found {
				return true
			}
		}
	}
	return false
}

// carryOut makes the moves one at a time, and puts everything back.
func carryOut(t *testing.T, s *shelves, pod *box, plan moves.Plan[*box]) {
	t.Helper()
	for _, m := range plan.Moves {
		if !s.FitsOn(m.Pod, m.To) {
			t.Errorf("%s finds no room on node %d: %s", m.Pod.name, m.To, draw(plan))
		}
		defer s.PlacePod(m.Pod, m.To)()
		defer s.RemovePod(m.Pod, m.From)()
	}
	if !s.FitsOn(pod, plan.Node) {
		t.Errorf("after the moves there is no room: %s", draw(plan))
	}
}

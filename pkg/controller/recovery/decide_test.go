package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/nodestate"
)

var (
	now      = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	settings = Settings{
		OutOfServiceAfter: 40 * time.Second, Budget: 20, BackOff: time.Minute, MaxBackOff: time.Hour, Forget: 6 * time.Hour,
	}
)

// node is one of a pool that has been well for a day.
func node(change ...func(*Node)) Node {
	out := Node{Name: "n", Created: now.Add(-24 * time.Hour), Ready: corev1.ConditionTrue, Since: now.Add(-23 * time.Hour), Pods: 2}
	for _, c := range change {
		c(&out)
	}
	return out
}

// unknown is a node that Kubernetes has called unknown 10 s ago, and whose failure is on record already.
func unknown(n *Node) {
	n.Ready, n.Since = corev1.ConditionUnknown, now.Add(-10*time.Second)
	n.Suspect, n.Record = true, Record{Failures: 1, Last: n.Since}
}

// bad is a node that is ready, and has had a condition for a minute that must not be true.
func bad(n *Node) { n.Bad, n.BadSince = "XIDFatal", now.Add(-time.Minute) }

func silent(d time.Duration) func(*Node) { return func(n *Node) { n.Silence = d } }

// recovered is a node that has been ready again for a while after a number of failures.
func recovered(ready time.Duration, failures int) func(*Node) {
	return func(n *Node) {
		n.Suspect, n.Since = true, now.Add(-ready)
		n.Record = Record{Failures: failures, Last: n.Since.Add(-time.Minute)}
	}
}

// trusted is the record of a node that is to be trusted again after a while.
func trusted(failures int, failed, left time.Duration) *Record {
	return &Record{Failures: failures, Last: now.Add(-failed), Until: now.Add(left)}
}

func TestDecideAboutANode(t *testing.T) {
	tests := map[string]struct {
		node     Node
		settings func(*Settings)
		want     Step
		again    time.Duration
	}{
		"a node that is well is left alone": {node: node()},
		"one that falls silent gets no new pods": {
			node:  node(unknown, func(n *Node) { n.Suspect, n.Record = false, Record{} }, silent(5*time.Second)),
			want:  Step{Suspect: true, Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second)}, Why: "it is not ready"},
			again: 35 * time.Second,
		},
		"one that says that it is not ready, too, and nothing more is done": {
			node: node(unknown, func(n *Node) { n.Ready, n.Suspect, n.Record = corev1.ConditionFalse, false, Record{} }, silent(time.Hour)),
			want: Step{Suspect: true, Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second)}, Why: "it is not ready"},
		},
		"silence alone, for long enough": {
			node:     node(unknown, silent(4*time.Minute)),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 0, 4*time.Minute },
			want:     Step{Declare: true, Why: "it has given no sign of life for 4m0s"},
		},
		"silence alone, not yet": {
			node:     node(unknown, silent(3*time.Minute)),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 0, 4*time.Minute }, again: time.Minute,
		},
		"silence alone proves nothing of a machine that may write to a disk of its own": {
			node:     node(unknown, silent(4*time.Minute), func(n *Node) { n.Exclusive = "ns/db" }),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 10*time.Minute, 4*time.Minute },
			want: Step{
				Held:   "pod ns/db holds a volume for one node at a time, and nothing proves that the machine is off",
				Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second), Held: &nodestate.Held{Reason: nodestate.HeldByStorage, Pod: "ns/db"}},
			},
			again: 6 * time.Minute,
		},
		"until it is certainly off": {
			node:     node(unknown, silent(10*time.Minute), func(n *Node) { n.Exclusive = "ns/db" }),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 10*time.Minute, 4*time.Minute },
			want:     Step{Declare: true, Why: "it has given no sign of life for 10m0s"},
		},
		"or its cloud says so": {
			node:     node(unknown, silent(time.Minute), func(n *Node) { n.Exclusive, n.ShutDown = "ns/db", true }),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 0, 4*time.Minute },
			want:     Step{Declare: true, Why: "its cloud says that the machine is shut down"},
		},
		"a kubelet that says itself that it is not ready is not silent": {
			node:     node(unknown, func(n *Node) { n.Ready = corev1.ConditionFalse }, silent(time.Hour)),
			settings: func(s *Settings) { s.OutOfServiceAfter, s.SilentAfter = 0, 4*time.Minute },
		},
		"a failure is counted once": {node: node(unknown, silent(5*time.Second)), again: 35 * time.Second},
		"and not one that only begins": {node: node(unknown, silent(5*time.Second), func(n *Node) {
			n.Created, n.Suspect, n.Record = n.Since.Add(-2*time.Second), false, Record{}
		}), again: 35 * time.Second},
		"who takes our taint away by hand is not argued with": {
			node: node(unknown, silent(5*time.Second), func(n *Node) { n.Suspect = false }), again: 35 * time.Second,
		},
		"the next failure counts on": {
			node: node(unknown, func(n *Node) { n.Record = Record{Failures: 3, Last: now.Add(-time.Hour)} }, silent(5*time.Second)),
			want: Step{Record: &Record{Failures: 4, Last: now.Add(-10 * time.Second)}, Why: "it is not ready"}, again: 35 * time.Second,
		},
		"after a long time it counts again": {
			node: node(unknown, func(n *Node) { n.Record = Record{Failures: 3, Last: now.Add(-7 * time.Hour)} }, silent(5*time.Second)),
			want: Step{Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second)}, Why: "it is not ready"}, again: 35 * time.Second,
		},
		"silence that is long enough proves that it is off": {
			node: node(unknown, silent(40*time.Second)),
			want: Step{Declare: true, Why: "it has given no sign of life for 40s"},
		},
		"a second less does not": {node: node(unknown, silent(39*time.Second)), again: time.Second},
		"nor any silence, where it proves nothing": {
			node: node(unknown, silent(24*time.Hour)), settings: func(s *Settings) { s.OutOfServiceAfter = 0 },
		},
		"nor that of a kubelet that speaks": {
			node: node(unknown, silent(time.Hour), func(n *Node) { n.Ready = corev1.ConditionFalse }),
		},
		"nor that of a node that Kubernetes calls ready": {node: node(silent(time.Hour))},
		"the word of its cloud does, at once": {
			node:     node(unknown, func(n *Node) { n.ShutDown = true }),
			settings: func(s *Settings) { s.OutOfServiceAfter = 0 },
			want:     Step{Declare: true, Why: "its cloud says that the machine is shut down"},
		},
		"but not while the node is ready": {node: node(func(n *Node) { n.ShutDown = true })},
		"a node without pods of ours is left as it is": {
			node: node(unknown, silent(time.Hour), func(n *Node) { n.Pods = 0 }),
		},
		"a pod that is not to be moved keeps all": {
			node: node(unknown, silent(time.Hour), func(n *Node) { n.Unmovable = "team/sft" }),
			want: Step{
				Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second), Held: &nodestate.Held{Reason: nodestate.HeldByPod, Pod: "team/sft"}},
				Held:   "pod team/sft is not to be moved without a person",
			},
		},
		"once is enough": {node: node(unknown, silent(time.Hour), func(n *Node) { n.OutOfService = true })},
		"what others have declared is theirs": {
			node: node(unknown, silent(time.Hour), func(n *Node) { n.OutOfServiceByOthers = true }),
		},
		"a node that is back is in service again, and still suspect": {
			node: node(recovered(10*time.Second, 1), func(n *Node) { n.OutOfService = true }),
			want: Step{Return: true, Record: trusted(1, 70*time.Second, 50*time.Second), Why: "it is ready again"}, again: 50 * time.Second,
		},
		"but not where others have called it out of service": {
			node: node(recovered(10*time.Second, 1), func(n *Node) { n.OutOfServiceByOthers = true }),
			want: Step{Record: trusted(1, 70*time.Second, 50*time.Second)}, again: 50 * time.Second,
		},
		"when it will be trusted is written down once": {
			node:  node(recovered(10*time.Second, 1), func(n *Node) { n.Record.Until = now.Add(50 * time.Second) }),
			again: 50 * time.Second,
		},
		"and no more once it is": {
			node: node(recovered(time.Minute, 1), func(n *Node) { n.Record.Until = now }),
			want: Step{Trust: true, Record: &Record{Failures: 1, Last: now.Add(-2 * time.Minute)}, Why: "it has been well for 1m0s"},
		},
		"nor when it fails again": {
			node: node(unknown, func(n *Node) { n.Record.Until = now.Add(time.Minute) }, silent(5*time.Second)),
			want: Step{Record: &Record{Failures: 1, Last: now.Add(-10 * time.Second)}}, again: 35 * time.Second,
		},
		"after a minute it is trusted": {
			node: node(recovered(time.Minute, 1)), want: Step{Trust: true, Why: "it has been well for 1m0s"},
		},
		"a node that is ready and has something bad gets no new pods": {
			node: node(bad), want: Step{Suspect: true, Record: &Record{Failures: 1, Last: now.Add(-time.Minute), Condition: "XIDFatal"}, Why: "its condition XIDFatal is true"},
		},
		"which is counted once, and not healed by time": {
			node: node(bad, func(n *Node) { n.Suspect, n.Record = true, Record{Failures: 1, Last: n.BadSince} }),
		},
		"who takes the taint away knows of it": {
			node: node(bad, func(n *Node) { n.Record = Record{Failures: 1, Last: n.BadSince} }),
		},
		"when that is over the node waits from then on": {
			node: node(recovered(time.Hour, 1), func(n *Node) { n.WellSince = now.Add(-10 * time.Second) }),
			want: Step{Record: trusted(1, time.Hour+time.Minute, 50*time.Second)}, again: 50 * time.Second,
		},
		"after two failures it is not": {node: node(recovered(time.Minute, 2)), want: Step{Record: trusted(2, 2*time.Minute, time.Minute)}, again: time.Minute},
		"after many it takes an hour":  {node: node(recovered(time.Minute, 900)), want: Step{Record: trusted(900, 2*time.Minute, 59*time.Minute)}, again: 59 * time.Minute},
		"a suspect of whom nothing is known waits as after one failure": {
			node: node(func(n *Node) { n.Suspect, n.Since = true, now.Add(-10*time.Second) }),
			want: Step{Record: &Record{Until: now.Add(50 * time.Second)}}, again: 50 * time.Second,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := settings
			if tc.settings != nil {
				tc.settings(&s)
			}
			steps, again := Decide([]Node{tc.node}, s, now)
			var want []Step
			if tc.want.HasChanges() || tc.want.Held != "" {
				tc.want.Node = "n"
				want = []Step{tc.want}
			}
			if diff := cmp.Diff(want, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if again != tc.again {
				t.Errorf("looks again after %s, want %s", again, tc.again)
			}
		})
	}
}

// TestDecideKeepsToTheBudget: some nodes of ten die at once.
func TestDecideKeepsToTheBudget(t *testing.T) {
	dead := func(n *Node) { unknown(n); n.Silence = time.Minute }
	tests := map[string]struct {
		nodes, budget int
		dead, already int
		// silent are more nodes, which are not yet certainly off; closed are dead ones that a person has cordoned.
		silent, closed int
		declared       int
	}{
		"one of ten":                            {nodes: 10, budget: 20, dead: 1, declared: 1},
		"as many as may":                        {nodes: 10, budget: 20, dead: 2, declared: 2},
		"one more, and none is taken for dead":  {nodes: 10, budget: 20, dead: 3},
		"those that are declared count":         {nodes: 10, budget: 20, dead: 2, already: 1},
		"one always may":                        {nodes: 3, budget: 0, dead: 1, declared: 1},
		"but not two":                           {nodes: 3, budget: 33, dead: 2},
		"those that are about to be count":      {nodes: 10, budget: 20, dead: 2, silent: 1},
		"those that a person has closed do not": {nodes: 10, budget: 20, dead: 2, already: 3, closed: 3, declared: 2},
		"all":                                   {nodes: 4, budget: 100, dead: 4, declared: 4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var nodes []Node
			for i := range tc.nodes {
				n := node()
				if i < tc.dead+tc.already {
					dead(&n)
				}
				n.OutOfService, n.Closed = i < tc.already, i < tc.closed
				if left := i - tc.dead - tc.already; left >= 0 && left < tc.silent {
					n.Silence = 30 * time.Second
				}
				nodes = append(nodes, n)
			}
			s := settings
			s.Budget = tc.budget
			steps, _ := Decide(nodes, s, now)
			declared := 0
			for _, step := range steps {
				if step.Declare {
					declared++
				} else if !strings.Contains(step.Held, "seem dead at once") || step.Record == nil || step.Record.Held == nil || step.Record.Held.Reason != nodestate.HeldByBudget {
					t.Errorf("a step without a reason: %+v", step)
				}
			}
			if declared != tc.declared {
				t.Errorf("%d nodes are declared, want %d", declared, tc.declared)
			}
		})
	}
}

// TestAFlappingNodeIsClosedOnce: a node fails and recovers a hundred times in ten minutes.
func TestAFlappingNodeIsClosedOnce(t *testing.T) {
	n := node()
	closed, opened := 0, 0
	for i := range 200 {
		at := now.Add(time.Duration(i) * 3 * time.Second)
		n.Since, n.Ready = at, corev1.ConditionTrue
		if i%2 == 0 {
			n.Ready = corev1.ConditionUnknown
		}
		steps, _ := Decide([]Node{n}, settings, at.Add(time.Second))
		for _, step := range steps {
			if step.Declare {
				t.Fatalf("a node that flaps is declared dead: %+v", step)
			}
			if step.Suspect {
				closed, n.Suspect = closed+1, true
			}
			if step.Trust {
				opened, n.Suspect = opened+1, false
			}
			if step.Record != nil {
				n.Record = *step.Record
			}
		}
	}
	if closed != 1 || opened != 0 {
		t.Errorf("the node was closed %d times and opened %d times, want once and never", closed, opened)
	}
	if n.Record.Failures != 100 {
		t.Errorf("%d failures are on record, want 100", n.Record.Failures)
	}
}

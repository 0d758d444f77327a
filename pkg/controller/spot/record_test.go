package spot

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestAMachineThatStartsGetsNoPods until its node is ready, whether or not its kubelet said so when it registered.
func TestAMachineThatStartsGetsNoPods(t *testing.T) {
	for name, tc := range map[string]struct {
		machine g8s.SpotMachine
		node    Node
		taints  []corev1.Taint
		want    bool
	}{
		"it boots":                   {machine: starting("x"), node: Node{Name: "x"}, taints: []corev1.Taint{{Key: g8s.TaintJoining}}, want: true},
		"it boots, and said nothing": {machine: starting("x"), node: Node{Name: "x"}, want: true},
		"it is ready":                {machine: starting("x"), node: empty("x"), taints: []corev1.Taint{{Key: g8s.TaintJoining}}},
		"it was ready before":        {machine: joined("x", 0), node: Node{Name: "x", Alive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := poolOf(1, 1)
			pool.Status.Machines = []g8s.SpotMachine{tc.machine}
			plan := Decide(Facts{Pool: pool, Answered: true, Instances: running("x"), Nodes: []Node{tc.node}, Now: t0})
			if len(plan.Nodes) != 1 {
				t.Fatalf("steps %v", plan.Nodes)
			}
			closed := slices.ContainsFunc(taintsOf(tc.taints, plan.Nodes[0]), func(taint corev1.Taint) bool {
				return taint.Key == g8s.TaintJoining && taint.Effect == corev1.TaintEffectNoSchedule
			})
			if closed != tc.want {
				t.Errorf("it gets no pods: %t, want %t", closed, tc.want)
			}
		})
	}
}

// TestWhenAMachineIsEmptied says when the pods of a machine that is to go are asked for a checkpoint and moved, and when it ends.
func TestWhenAMachineIsEmptied(t *testing.T) {
	in := func(d time.Duration) func(*g8s.SpotLeaving) { return func(l *g8s.SpotLeaving) { l.End = ago(-d) } }
	asking := Node{Name: "x", Ready: true, Alive: true, Jobs: 1, Pods: 1, WantsCheckpoint: true}
	tests := map[string]struct {
		machine g8s.SpotMachine
		node    Node
		want    NodeStep
		ends    bool
	}{
		"at once if nobody asks for time": {
			machine: leaving("x", g8s.LeavingInterrupted, 0, in(2*time.Minute)), node: busy("x", 8), want: NodeStep{Leaving: "Interrupted", Evict: true},
		},
		"after the time to save their state": {
			machine: leaving("x", g8s.LeavingInterrupted, 10*time.Second, in(2*time.Minute)), node: asking,
			want: NodeStep{Leaving: "Interrupted", Checkpoint: t0.Add(50 * time.Second)},
		},
		"so that they can end before the machine does": {
			machine: leaving("x", g8s.LeavingInterrupted, 0, in(time.Minute)), node: asking,
			want: NodeStep{Leaving: "Interrupted", Checkpoint: t0.Add(20 * time.Second)},
		},
		"at once when there is no time left": {
			machine: leaving("x", g8s.LeavingInterrupted, 0, in(30*time.Second)), node: asking, want: NodeStep{Leaving: "Interrupted", Evict: true},
		},
		"a machine that is taken back is not ended by us": {
			machine: leaving("x", g8s.LeavingInterrupted, time.Minute, in(time.Minute)), node: empty("x"), want: NodeStep{Leaving: "Interrupted", Evict: true},
		},
		"but if it runs on, empty": {
			machine: leaving("x", g8s.LeavingInterrupted, time.Hour, in(-overdueAfter)), node: empty("x"), ends: true,
			want: NodeStep{Leaving: "Interrupted", Evict: true},
		},
		"of a deleted pool it ends when it is empty": {
			machine: leaving("x", g8s.LeavingDeleted, closedFor, nil), node: empty("x"), ends: true, want: NodeStep{Leaving: "Deleted", Evict: true},
		},
		"not before": {
			machine: leaving("x", g8s.LeavingDeleted, time.Minute, nil), node: busy("x", 8), want: NodeStep{Leaving: "Deleted", Evict: true},
		},
		"but does not wait for ever": {
			machine: leaving("x", g8s.LeavingDeleted, deletionGrace, nil), node: busy("x", 8), ends: true, want: NodeStep{Leaving: "Deleted", Evict: true},
		},
		"one that has ended has its pods ended, too": {
			machine: leaving("x", g8s.LeavingGone, 0, nil), node: busy("x", 8), want: NodeStep{Leaving: "Gone", Evict: true, Gone: true},
		},
		"and its node deleted then": {
			machine: leaving("x", g8s.LeavingGone, 0, nil), node: empty("x"), want: NodeStep{Leaving: "Gone", Gone: true, Delete: true},
		},
		"or after a while": {
			machine: leaving("x", g8s.LeavingGone, deleteAfter, nil), node: busy("x", 8), want: NodeStep{Leaving: "Gone", Evict: true, Gone: true, Delete: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pool := poolOf(0, 1)
			pool.Status.Machines = []g8s.SpotMachine{tc.machine}
			if tc.machine.Leaving.Reason == g8s.LeavingDeleted {
				pool.DeletionTimestamp = ago(0)
			}
			plan := Decide(Facts{Pool: pool, Answered: true, Instances: running("x"), Nodes: []Node{tc.node}, Now: t0})
			tc.want.Name, tc.want.Machine = "x", "x"
			if diff := cmp.Diff([]NodeStep{tc.want}, plan.Nodes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if ends := len(plan.Terminate) > 0; ends != tc.ends {
				t.Errorf("the machine is ended: %v, want %v", ends, tc.ends)
			}
		})
	}
}

// TestRecord says what is remembered of what came of orders.
func TestRecord(t *testing.T) {
	order := func(name string) Order { return Order{Machine: name, InstanceType: "big", Zone: "a"} }
	two := []g8s.SpotMachine{asked("x", 0), asked("y", 0)}
	refusal := func(kind Kind) error { return &Error{Kind: kind} }
	tests := map[string]struct {
		results  []Result
		machines []string
		offers   int32
		failures int32
		retry    time.Duration
	}{
		"bought": {results: []Result{{Order: order("x"), Instance: "ins-1"}, {Order: order("y"), Instance: "ins-2"}}, machines: []string{"ins-1", "ins-2"}},
		"sold out counts once": {
			results: []Result{{Order: order("x"), Err: refusal(SoldOut)}, {Order: order("y"), Err: refusal(SoldOut)}}, offers: 1,
		},
		"sold out when asked again": {
			results: []Result{{Order: order("x"), Err: refusal(SoldOut), Replayed: true}, {Order: order("y"), Instance: "ins-2"}}, offers: 1, machines: []string{"ins-2"},
		},
		"a lost answer is remembered": {
			results: []Result{{Order: order("x"), Err: refusal(Lost)}, {Order: order("y"), Err: refusal(Throttled)}}, machines: []string{""}, failures: 1, retry: 2 * time.Second,
		},
		"throttled when asked again says nothing": {
			results: []Result{{Order: order("x"), Err: refusal(Throttled), Replayed: true}}, machines: []string{"", ""}, failures: 1, retry: 2 * time.Second,
		},
		"what may not be is asked seldom": {
			results: []Result{{Order: order("x"), Err: refusal(Denied)}, {Order: order("y"), Err: refusal(Denied)}}, failures: 1, retry: 15 * time.Second,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := g8s.SpotPoolStatus{Machines: slices.Clone(two)}
			RecordResults(&status, tc.results, t0)
			var machines []string
			for _, m := range status.Machines {
				machines = append(machines, m.Instance)
			}
			if diff := cmp.Diff(tc.machines, machines); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if status.Failures != tc.failures {
				t.Errorf("%d failures, want %d", status.Failures, tc.failures)
			}
			if tc.retry > 0 && (status.RetryAfter == nil || status.RetryAfter.Sub(t0) != tc.retry) {
				t.Errorf("it is asked again at %v, want in %s", status.RetryAfter, tc.retry)
			}
			var offers int32
			for _, offer := range status.Offers {
				offers += offer.Failures
			}
			if offers != tc.offers {
				t.Errorf("%d failures of offers, want %d", offers, tc.offers)
			}
		})
	}
}

// TestBackOff grows, and has an end.
func TestBackOff(t *testing.T) {
	var offers []g8s.SpotOffer
	var got []time.Duration
	for range 8 {
		offers = failedOffer(offers, g8s.SpotOffer{InstanceType: "big", Zone: "a"}, t0)
		got = append(got, offers[0].RetryAfter.Sub(t0))
	}
	s := time.Second
	want := []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s, 300 * s}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConditions says why a pool is not well.
func TestConditions(t *testing.T) {
	sold := g8s.SpotOffer{Reason: "sold out", RetryAfter: *ago(-time.Hour)}
	var all []g8s.SpotOffer
	for _, instanceType := range []string{"big", "small"} {
		for _, zone := range []string{"a", "b"} {
			offer := sold
			offer.InstanceType, offer.Zone = instanceType, zone
			all = append(all, offer)
		}
	}
	pool := poolOf(1, 2)
	pool.Status.Offers = append(slices.Clone(all), g8s.SpotOffer{InstanceType: "gone from the spec", Zone: "a"})
	plan := Decide(Facts{Pool: pool, Answered: true, Now: t0})
	if len(plan.Launch) > 0 || len(plan.Status.Offers) != len(all) {
		t.Errorf("%d orders and %d offers, want none and %d", len(plan.Launch), len(plan.Status.Offers), len(all))
	}
	for kind, want := range map[string]string{
		g8s.ConditionReady: "TooFewMachines", g8s.ConditionCapacityAvailable: "SoldOut", g8s.ConditionCloudAnswers: "Answers",
	} {
		if condition := meta.FindStatusCondition(plan.Status.Conditions, kind); condition == nil || condition.Reason != want {
			t.Errorf("condition %s is %v, want %s", kind, condition, want)
		}
	}
}

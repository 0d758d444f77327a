package spot

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(t0.Add(-d))) }

// joined is a machine that runs jobs for an hour, or none for as long as is said.
func joined(name string, idle time.Duration) g8s.SpotMachine {
	out := g8s.SpotMachine{
		Name: name, InstanceType: "big", Zone: "a", Instance: "ins-" + name, State: g8s.MachineJoined, Requested: *ago(time.Hour),
		Listed: true, JoinedAt: ago(time.Hour),
	}
	if idle > 0 {
		out.IdleSince = ago(idle)
	}
	return out
}

// joinedAt is a machine that joined a while ago.
func joinedAt(name string, since time.Duration) g8s.SpotMachine {
	out := joined(name, 0)
	out.Requested, out.JoinedAt = *ago(time.Hour), ago(since)
	return out
}

func leaving(name, reason string, since time.Duration, change func(*g8s.SpotLeaving)) g8s.SpotMachine {
	out := joined(name, 0)
	out.Leaving = &g8s.SpotLeaving{Reason: reason, Since: *ago(since)}
	if change != nil {
		change(out.Leaving)
	}
	return out
}

// asked is a machine that was asked for a while ago, and not heard of.
func asked(name string, since time.Duration) g8s.SpotMachine {
	return g8s.SpotMachine{Name: name, InstanceType: "big", Zone: "a", Requested: *ago(since)}
}

func running(names ...string) (out []Instance) {
	for _, name := range names {
		out = append(out, Instance{ID: "ins-" + name, Machine: name, InstanceType: "big", Zone: "a", State: Running})
	}
	return out
}

func busy(name string, gpus int64) Node {
	return Node{Name: name, Ready: true, Alive: true, Jobs: 1, Pods: 1, GPUs: gpus}
}

func empty(name string) Node { return Node{Name: name, Ready: true, Alive: true} }

// outcome is what is looked at of a plan.
type outcome struct {
	Buy       int
	Offer     string
	Again     []string
	Terminate []string
	// Leaving are machines that are to go, with the reason, Machines how many there are.
	Leaving  map[string]string
	Machines int
	Done     bool
}

func outcomeOf(plan Plan) outcome {
	out := outcome{Terminate: plan.Terminate, Machines: len(plan.Status.Machines), Done: plan.Done}
	for _, order := range plan.Launch {
		if plan.Replay[order.Machine] {
			out.Again = append(out.Again, order.Machine)
			continue
		}
		out.Buy++
		out.Offer = order.InstanceType + "/" + order.Zone
	}
	for _, m := range plan.Status.Machines {
		if m.Leaving != nil {
			if out.Leaving == nil {
				out.Leaving = map[string]string{}
			}
			out.Leaving[m.Name] = m.Leaving.Reason
		}
	}
	return out
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		least, most int32
		machines    []g8s.SpotMachine
		offers      []g8s.SpotOffer
		retry       *metav1.Time
		deleted     bool
		silent      bool // the cloud does not answer
		joining     *g8s.SpotJoining
		unbuyable   bool
		instances   []Instance
		nodes       []Node
		demand      Demand
		want        outcome
	}{
		"a new pool is filled to its minimum": {least: 3, most: 5, want: outcome{Buy: 3, Offer: "big/a", Machines: 3}},
		"nothing is done where the size is right": {
			least: 1, most: 2, machines: []g8s.SpotMachine{joined("x", 0)}, instances: running("x"), nodes: []Node{busy("x", 8)},
			want: outcome{Machines: 1},
		},
		"nothing is bought of a cloud that does not answer": {least: 3, most: 5, silent: true},
		"nothing is bought until a back-off is over":        {least: 3, most: 5, retry: ago(-time.Second)},
		"the next zone is tried when one is sold out": {
			least: 1, most: 1, offers: []g8s.SpotOffer{{InstanceType: "big", Zone: "a", Failures: 1, RetryAfter: *ago(-time.Second)}},
			want: outcome{Buy: 1, Offer: "big/b", Machines: 1},
		},
		"the next type is tried when all zones are sold out": {
			least: 1, most: 1, offers: []g8s.SpotOffer{
				{InstanceType: "big", Zone: "a", RetryAfter: *ago(-time.Second)}, {InstanceType: "big", Zone: "b", RetryAfter: *ago(-time.Second)},
			},
			want: outcome{Buy: 1, Offer: "small/a", Machines: 1},
		},
		"what was sold out is tried again later": {
			least: 1, most: 1, offers: []g8s.SpotOffer{{InstanceType: "big", Zone: "a", Failures: 9, RetryAfter: *ago(0)}},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 1},
		},
		"an order without an answer is placed again, and no other": {
			least: 1, most: 1, machines: []g8s.SpotMachine{asked("x", 5*time.Second)},
			want: outcome{Again: []string{"x"}, Machines: 1},
		},
		"a machine is found by its tag when the answer was lost": {
			least: 1, most: 1, machines: []g8s.SpotMachine{asked("x", 5*time.Second)}, instances: running("x"), want: outcome{Machines: 1},
		},
		"it is, for as long as nobody says what came of it": {
			least: 1, most: 1, machines: []g8s.SpotMachine{asked("x", 2*settleTime)}, want: outcome{Again: []string{"x"}, Machines: 1},
		},
		"and not more often than a cloud can answer": {
			least: 1, most: 1, machines: []g8s.SpotMachine{askedAgain(asked("x", settleTime), time.Second)}, want: outcome{Machines: 1},
		},
		"one that is to go is not placed again, and forgotten when it is too late for it": {
			machines: []g8s.SpotMachine{toGo(asked("x", settleTime))}, deleted: true, want: outcome{Done: true},
		},
		"which counts from when it was last asked for": {
			machines: []g8s.SpotMachine{toGo(askedAgain(asked("x", 2*settleTime), settleTime-time.Second))}, deleted: true,
			want: outcome{Machines: 1, Leaving: map[string]string{"x": g8s.LeavingDeleted}},
		},
		"nor forgotten while the cloud does not answer": {
			machines: []g8s.SpotMachine{toGo(asked("x", settleTime))}, deleted: true, silent: true,
			want: outcome{Machines: 1, Leaving: map[string]string{"x": g8s.LeavingDeleted}},
		},
		"a few machines are bought at once": {least: 30, most: 30, want: outcome{Buy: maxOrders, Offer: "big/a", Machines: maxOrders}},
		"orders without an answer keep no others waiting, nor these them": {
			least: 30, most: 30, machines: many(10, func(name string) g8s.SpotMachine { return asked(name, time.Minute) }),
			want: outcome{Buy: maxOrders / 2, Offer: "big/a", Again: names(maxOrders / 2), Machines: 10 + maxOrders/2},
		},
		"a machine whose order took long has not ended because it is not listed yet": {
			least: 1, most: 1, machines: []g8s.SpotMachine{askedAgain(bought(asked("x", time.Hour)), unlistedFor-time.Second)}, want: outcome{Machines: 1},
		},
		"but it has when it never is": {
			least: 1, most: 1, machines: []g8s.SpotMachine{askedAgain(bought(asked("x", time.Hour)), unlistedFor)},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 1},
		},
		"a machine that is taken back is replaced before it ends": {
			least: 1, most: 1, machines: []g8s.SpotMachine{joined("x", 0)}, nodes: []Node{busy("x", 8)},
			instances: []Instance{{ID: "ins-x", Machine: "x", State: Running, Interruption: t0.Add(2 * time.Minute)}},
			want:      outcome{Buy: 1, Offer: "big/a", Machines: 2, Leaving: map[string]string{"x": g8s.LeavingInterrupted}},
		},
		"so is one whose node says so": {
			least: 1, most: 1, machines: []g8s.SpotMachine{joined("x", 0)}, instances: running("x"),
			nodes: []Node{{Name: "x", Ready: true, Interruption: t0.Add(2 * time.Minute)}},
			want:  outcome{Buy: 1, Offer: "big/a", Machines: 2, Leaving: map[string]string{"x": g8s.LeavingInterrupted}},
		},
		"one that is being ended by others is taken back": {
			least: 1, most: 1, machines: []g8s.SpotMachine{joined("x", 0)}, instances: []Instance{{ID: "ins-x", Machine: "x", State: Stopping}},
			nodes: []Node{busy("x", 8)},
			want:  outcome{Buy: 1, Offer: "big/a", Machines: 2, Leaving: map[string]string{"x": g8s.LeavingInterrupted}},
		},
		"one that has ended is replaced": {
			least: 1, most: 1, machines: []g8s.SpotMachine{joined("x", 0)}, instances: []Instance{{ID: "ins-x", Machine: "x", State: Ended}},
			nodes: []Node{busy("x", 8)},
			want:  outcome{Buy: 1, Offer: "big/a", Machines: 2, Leaving: map[string]string{"x": g8s.LeavingGone}},
		},
		"one that is not listed once is not replaced": {
			least: 2, most: 2, machines: []g8s.SpotMachine{joined("x", 0), joined("y", 0)}, instances: running("y"),
			nodes: []Node{{Name: "x", Ready: true}, busy("y", 8)}, want: outcome{Machines: 2},
		},
		"one that is not listed for a while is": {
			least: 2, most: 2, machines: []g8s.SpotMachine{missing(joined("x", 0)), joined("y", 0)}, instances: running("y"),
			nodes: []Node{{Name: "x", Ready: true}, busy("y", 8)},
			want:  outcome{Buy: 1, Offer: "big/a", Machines: 3, Leaving: map[string]string{"x": g8s.LeavingGone}},
		},
		"but not while its kubelet lives": {
			least: 2, most: 2, machines: []g8s.SpotMachine{missing(joined("x", 0)), joined("y", 0)}, instances: running("y"),
			nodes: []Node{busy("x", 8), busy("y", 8)}, want: outcome{Machines: 2},
		},
		"idle machines stay until their replacements have joined": {
			least: 2, most: 3, machines: []g8s.SpotMachine{joined("a", time.Hour), joined("b", time.Hour), starting("c")},
			instances: running("a", "b", "c"), nodes: []Node{empty("a"), empty("b")}, want: outcome{Machines: 3},
		},
		"a list without any of the machines is not believed while their nodes live": {
			least: 2, most: 2, machines: []g8s.SpotMachine{missing(joined("x", 0)), missing(joined("y", 0))},
			nodes: []Node{busy("x", 8), busy("y", 8)}, want: outcome{Machines: 2},
		},
		"it is when they are silent": {
			least: 1, most: 2, machines: []g8s.SpotMachine{missing(joined("x", 0))}, nodes: []Node{{Name: "x", Ready: true}},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 2, Leaving: map[string]string{"x": g8s.LeavingGone}},
		},
		"a machine that nobody knows of is adopted": {least: 1, most: 1, instances: running("p-0105a000"), want: outcome{Machines: 1}},
		"and is ended if it is too many": {
			least: 1, most: 1, machines: []g8s.SpotMachine{joined("x", 0)}, instances: running("x", "p-0105a000"), nodes: []Node{busy("x", 8)},
			want: outcome{Machines: 2, Leaving: map[string]string{"p-0105a000": g8s.LeavingExcess}, Terminate: []string{"ins-p-0105a000"}},
		},
		"beyond the maximum those with the fewest GPUs in use go, and no more": {
			least: 1, most: 2, machines: []g8s.SpotMachine{joined("a", 0), joined("b", 0), joined("c", 0), joined("d", 0)},
			instances: running("a", "b", "c", "d"), nodes: []Node{busy("a", 4), busy("b", 8), busy("c", 1), busy("d", 8)},
			want: outcome{Machines: 4, Leaving: map[string]string{"a": g8s.LeavingExcess, "c": g8s.LeavingExcess}},
		},
		"those with a pod that is not to be moved go last": {
			least: 0, most: 1, machines: []g8s.SpotMachine{joined("a", 0), joined("b", 0)}, instances: running("a", "b"),
			nodes: []Node{{Name: "a", Ready: true, Pods: 1, Jobs: 1, GPUs: 1, Kept: true}, busy("b", 8)},
			want:  outcome{Machines: 2, Leaving: map[string]string{"b": g8s.LeavingExcess}},
		},
		"one that was to go stays when another is taken back": {
			least: 1, most: 2, machines: []g8s.SpotMachine{joined("a", 0), leaving("b", g8s.LeavingExcess, time.Minute, nil)},
			instances: append(running("b"), Instance{ID: "ins-a", Machine: "a", Interruption: t0.Add(time.Minute)}),
			nodes:     []Node{busy("a", 8), busy("b", 8)},
			want:      outcome{Machines: 2, Leaving: map[string]string{"a": g8s.LeavingInterrupted}},
		},
		"one that is being ended does not": {
			least: 1, most: 2, machines: []g8s.SpotMachine{
				joined("a", 0), leaving("b", g8s.LeavingExcess, time.Minute, func(l *g8s.SpotLeaving) { l.Ending = true }),
			},
			instances: append(running("b"), Instance{ID: "ins-a", Machine: "a", Interruption: t0.Add(time.Minute)}),
			nodes:     []Node{busy("a", 8), empty("b")},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 3, Terminate: []string{"ins-b"},
				Leaving: map[string]string{"a": g8s.LeavingInterrupted, "b": g8s.LeavingExcess}},
		},
		"machines are bought for what waits, up to the maximum": {
			least: 1, most: 3, machines: []g8s.SpotMachine{joined("a", 0)}, instances: running("a"), nodes: []Node{busy("a", 8)},
			demand: Demand{Machines: 5}, want: outcome{Buy: 2, Offer: "big/a", Machines: 3},
		},
		"those on their way count": {
			least: 1, most: 5, machines: []g8s.SpotMachine{joined("a", 0), starting("b")}, instances: running("a", "b"), nodes: []Node{busy("a", 8)},
			demand: Demand{Machines: 2}, want: outcome{Buy: 1, Offer: "big/a", Machines: 3},
		},
		"what waits beside an idle machine is not helped by another": {
			least: 1, most: 5, machines: []g8s.SpotMachine{joined("a", time.Second)}, instances: running("a"), nodes: []Node{empty("a")},
			demand: Demand{Machines: 1}, want: outcome{Machines: 1},
		},
		"advice is followed where there is some": {
			least: 1, most: 9, machines: []g8s.SpotMachine{joined("a", 0)}, instances: running("a"), nodes: []Node{busy("a", 8)},
			demand: Demand{Machines: 8, Advice: ptr.To(2), AsOf: t0.Add(-time.Second)}, want: outcome{Buy: 2, Offer: "big/a", Machines: 3},
		},
		"advice from before the last machine joined is not": {
			least: 1, most: 9, machines: []g8s.SpotMachine{joined("a", 0)}, instances: running("a"), nodes: []Node{busy("a", 8)},
			demand: Demand{Machines: 8, Advice: ptr.To(2), AsOf: t0.Add(-2 * time.Hour)}, want: outcome{Machines: 1},
		},
		"idle machines go after a while, down to the minimum": {
			least: 1, most: 5, machines: []g8s.SpotMachine{joined("a", 0), joined("b", time.Hour), joined("c", time.Second), joined("d", time.Hour)},
			instances: running("a", "b", "c", "d"), nodes: []Node{busy("a", 8), empty("b"), empty("c"), empty("d")},
			want: outcome{Machines: 4, Leaving: map[string]string{"b": g8s.LeavingIdle, "d": g8s.LeavingIdle}},
		},
		"idle machines of the minimum stay": {
			least: 2, most: 5, machines: []g8s.SpotMachine{joined("a", time.Hour), joined("b", time.Hour)}, instances: running("a", "b"),
			nodes: []Node{empty("a"), empty("b")}, want: outcome{Machines: 2},
		},
		"idle machines stay while something waits for such": {
			least: 0, most: 5, machines: []g8s.SpotMachine{joined("a", time.Hour)}, instances: running("a"), nodes: []Node{empty("a")},
			demand: Demand{Machines: 1}, want: outcome{Machines: 1},
		},
		"and no more of them than it would fill": {
			least: 0, most: 5, machines: []g8s.SpotMachine{joined("a", time.Hour), joined("b", time.Hour), joined("c", time.Hour)},
			instances: running("a", "b", "c"), nodes: []Node{empty("a"), empty("b"), empty("c")},
			demand: Demand{Machines: 1}, want: outcome{Machines: 3, Leaving: map[string]string{"b": g8s.LeavingIdle, "c": g8s.LeavingIdle}},
		},
		"an idle machine is ended once no pod can come any more": {
			least: 0, most: 5, machines: []g8s.SpotMachine{leaving("a", g8s.LeavingIdle, closedFor, nil)}, instances: running("a"), nodes: []Node{empty("a")},
			want: outcome{Machines: 1, Leaving: map[string]string{"a": g8s.LeavingIdle}, Terminate: []string{"ins-a"}},
		},
		"and stays if one has": {
			least: 0, most: 5, machines: []g8s.SpotMachine{leaving("a", g8s.LeavingIdle, closedFor, nil)}, instances: running("a"), nodes: []Node{busy("a", 1)},
			want: outcome{Machines: 1},
		},
		"a machine that never joins is ended, and the next is bought later": {
			least: 1, most: 1, machines: []g8s.SpotMachine{late("a")}, instances: running("a"),
			want: outcome{Machines: 1, Leaving: map[string]string{"a": g8s.LeavingNeverJoined}, Terminate: []string{"ins-a"}},
		},
		"so is one that is shut down before it joins": {
			least: 1, most: 1, machines: []g8s.SpotMachine{starting("a")}, instances: []Instance{{ID: "ins-a", Machine: "a", State: Halted}},
			want: outcome{Machines: 1, Leaving: map[string]string{"a": g8s.LeavingFailed}, Terminate: []string{"ins-a"}},
		},
		"a machine that never joins is replaced at once where others did since it was bought": {
			least: 2, most: 2, machines: []g8s.SpotMachine{late("a"), joinedAt("b", time.Minute)}, instances: running("a", "b"),
			nodes: []Node{busy("b", 8)}, joining: &g8s.SpotJoining{LastJoined: ago(time.Minute)},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 3, Leaving: map[string]string{"a": g8s.LeavingNeverJoined}, Terminate: []string{"ins-a"}},
		},
		"one machine is tried where the last did not join": {
			least: 30, most: 30, joining: &g8s.SpotJoining{Failures: 1, RetryAfter: ago(0)}, want: outcome{Buy: 1, Offer: "big/a", Machines: 1},
		},
		"and no other while it is on its way": {
			least: 30, most: 30, machines: []g8s.SpotMachine{starting("a")}, instances: running("a"),
			joining: &g8s.SpotJoining{Failures: 1, RetryAfter: ago(0)}, want: outcome{Machines: 1},
		},
		"nor before its time": {least: 30, most: 30, joining: &g8s.SpotJoining{Failures: 1, RetryAfter: ago(-time.Second)}},
		"it is tried where fewer have failed": {
			least: 30, most: 30, joining: &g8s.SpotJoining{Failures: 2, RetryAfter: ago(0), Offers: []g8s.UnjoinedOffer{
				{InstanceType: "big", Zone: "a", Failures: 2, RetryAfter: *ago(0)}, {InstanceType: "big", Zone: "b", Failures: 1, RetryAfter: *ago(0)},
				{InstanceType: "small", Zone: "a", Failures: 1, RetryAfter: *ago(0)}, {InstanceType: "small", Zone: "b", Failures: 3, RetryAfter: *ago(0)},
			}},
			want: outcome{Buy: 1, Offer: "big/b", Machines: 1},
		},
		"machines that join elsewhere are not tried where they do not": {
			least: 3, most: 3, joining: &g8s.SpotJoining{LastJoined: ago(time.Minute), Offers: []g8s.UnjoinedOffer{
				{InstanceType: "big", Zone: "a", Failures: 1, RetryAfter: *ago(-time.Minute)},
			}},
			want: outcome{Buy: 3, Offer: "big/b", Machines: 3},
		},
		"until one may be tried again": {
			least: 3, most: 3, joining: &g8s.SpotJoining{LastJoined: ago(time.Minute), Offers: []g8s.UnjoinedOffer{
				{InstanceType: "big", Zone: "a", Failures: 1, RetryAfter: *ago(0)},
			}},
			want: outcome{Buy: 1, Offer: "big/a", Machines: 1},
		},
		"no more than a few are on their way before one has joined": {
			least: 30, most: 30, machines: many(mostUnproven, starting), instances: running(names(mostUnproven)...), want: outcome{Machines: mostUnproven},
		},
		"nothing is bought without user data": {least: 3, most: 3, unbuyable: true},
		"a machine that could not be started is ended, and bought elsewhere": {
			least: 1, most: 1, machines: []g8s.SpotMachine{starting("a")}, instances: []Instance{{ID: "ins-a", Machine: "a", State: Broken}},
			want: outcome{Buy: 1, Offer: "big/b", Machines: 2, Leaving: map[string]string{"a": g8s.LeavingFailed}, Terminate: []string{"ins-a"}},
		},
		"all machines of a deleted pool go": {
			least: 1, most: 1, deleted: true, machines: []g8s.SpotMachine{joined("a", 0), starting("b")}, instances: running("a", "b"),
			nodes: []Node{busy("a", 8)},
			want:  outcome{Machines: 2, Leaving: map[string]string{"a": g8s.LeavingDeleted, "b": g8s.LeavingDeleted}, Terminate: []string{"ins-b"}},
		},
		"it is not done while an order is without an answer": {
			least: 1, most: 1, deleted: true, machines: []g8s.SpotMachine{asked("a", time.Second)},
			want: outcome{Machines: 1, Leaving: map[string]string{"a": g8s.LeavingDeleted}},
		},
		"nor while the cloud does not answer": {least: 1, most: 1, deleted: true, silent: true},
		"it is done when nothing is left":     {least: 1, most: 1, deleted: true, want: outcome{Done: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pool := poolOf(tc.least, tc.most)
			pool.Status = g8s.SpotPoolStatus{Machines: tc.machines, Offers: tc.offers, RetryAfter: tc.retry, Joining: tc.joining}
			if tc.joining != nil {
				pool.Status.Joining.Recipe = recipeHash(&pool.Spec)
			}
			var unbuyable error
			if tc.unbuyable {
				unbuyable = &Error{Kind: Denied}
			}
			if tc.deleted {
				pool.DeletionTimestamp = ago(0)
			}
			before := pool.DeepCopy()
			plan := Decide(Facts{
				Pool: pool, Answered: !tc.silent, Failure: &Error{Kind: Lost}, Instances: tc.instances, Nodes: tc.nodes, Demand: tc.demand, Now: t0,
				Unbuyable: unbuyable,
			})
			got := outcomeOf(plan)
			slices.Sort(got.Terminate)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pool); diff != "" {
				t.Errorf("it changed what it was given (-before +after):\n%s", diff)
			}
		})
	}
}

func poolOf(least, most int32) *g8s.SpotPool {
	return &g8s.SpotPool{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid"},
		Spec: g8s.SpotPoolSpec{
			Pool: "train", Minimum: least, Maximum: most, DrainSeconds: ptr.To[int32](60), IdleSeconds: ptr.To[int32](600),
			Template: g8s.MachineTemplate{InstanceTypes: []string{"big", "small"}, Zones: []g8s.MachineZone{{Name: "a"}, {Name: "b"}}, GPUs: 8},
		},
	}
}

func missing(m g8s.SpotMachine) g8s.SpotMachine {
	m.MissingSince = ago(missingFor)
	return m
}

func starting(name string) g8s.SpotMachine {
	m := asked(name, 10*time.Second)
	m.Instance, m.Listed = "ins-"+name, true
	return m
}

// askedAgain is a machine that was asked for once more, a while ago.
func askedAgain(m g8s.SpotMachine, since time.Duration) g8s.SpotMachine {
	m.Asked = ago(since)
	return m
}

func toGo(m g8s.SpotMachine) g8s.SpotMachine {
	m.Leaving = &g8s.SpotLeaving{Reason: g8s.LeavingDeleted, Since: *ago(0)}
	return m
}

func bought(m g8s.SpotMachine) g8s.SpotMachine {
	m.Instance = "ins-" + m.Name
	return m
}

func names(count int) (out []string) {
	for i := range count {
		out = append(out, "m"+strconv.Itoa(i))
	}
	return out
}

func many(count int, of func(string) g8s.SpotMachine) (out []g8s.SpotMachine) {
	for _, name := range names(count) {
		out = append(out, of(name))
	}
	return out
}

func late(name string) g8s.SpotMachine {
	m := starting(name)
	m.Requested = *ago((15 * time.Minute))
	return m
}

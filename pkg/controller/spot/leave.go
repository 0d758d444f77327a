package spot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// ending is how long before its end the pods of a machine that is taken back are evicted at the latest: the time in which they
	// may end, and a little.
	ending = 40 * time.Second
	// closed is how long the node of an idle machine gets no new pods until it is ended: one that was being bound is seen by then.
	closed = 5 * time.Second
	// overdue is how long after its end a machine that still runs, empty, is ended by us.
	overdue = 2 * time.Minute
	// patience is how long after their time the jobs of a SpotPool that is deleted may keep a machine.
	patience = 5 * time.Minute
	// deleteAfter is how long the node of a machine that has ended stays at most for its pods to be ended on it.
	deleteAfter = 60 * time.Second
)

// step says what to do about a machine and its node.
func (p *planner) step(m *g8s.SpotMachine) {
	node := p.nodes[m.Name]
	m.State = stateOf(m, node)
	if node == nil {
		if m.Leaving != nil {
			p.again(lookSoon)
			p.end(m, p.mayEndWithoutNode(m))
		}
		return
	}
	out := NodeStep{Name: node.Name, Machine: m.Name, Starting: m.JoinedAt == nil}
	if m.Leaving != nil {
		p.again(lookSoon)
		out.Leaving = m.Leaving.Reason
		p.empty(m, node, &out)
	}
	p.plan.Nodes = append(p.plan.Nodes, out)
}

// empty has the node of a machine that is to go emptied, and the machine ended when it is.
func (p *planner) empty(m *g8s.SpotMachine, node *Node, out *NodeStep) {
	since := p.since(m.Leaving.Since)
	if m.Leaving.Reason == g8s.LeavingGone {
		out.Gone, out.Evict = true, node.Pods > 0
		out.Delete = node.Pods == 0 || since >= deleteAfter
		return
	}
	out.Evict = true
	switch m.Leaving.Reason {
	case g8s.LeavingIdle:
		p.end(m, node.Pods == 0 && since >= closed)
		return
	case g8s.LeavingNeverJoined, g8s.LeavingFailed:
		p.end(m, true)
		return
	}
	until := p.evictAt(m, node)
	if left := until.Sub(p.facts.Now); left > 0 {
		out.Evict, out.Checkpoint = false, until
		p.again(left)
	}
	p.end(m, p.mayEnd(m, node.Pods == 0, until))
}

// mayEnd reports whether a machine may be ended that is to go for a reason that leaves its pods time.
func (p *planner) mayEnd(m *g8s.SpotMachine, isEmpty bool, until time.Time) bool {
	isClosed := isEmpty && p.since(m.Leaving.Since) >= closed
	switch m.Leaving.Reason {
	case g8s.LeavingInterrupted:
		return isEmpty && p.isOverdue(m)
	case g8s.LeavingExcess:
		return isClosed
	case g8s.LeavingDeleted:
		return isClosed || p.facts.Now.Sub(until) >= patience
	}
	return false
}

// evictAt is when the pods of a machine are moved: at once, but where one asks for time to save its state.
func (p *planner) evictAt(m *g8s.SpotMachine, node *Node) time.Time {
	since := m.Leaving.Since.Time
	if !node.Asks {
		return since
	}
	until := since.Add(time.Duration(seconds(p.spec.DrainSeconds, 60)) * time.Second)
	if end := m.Leaving.End; end != nil && until.After(end.Add(-ending)) {
		until = end.Add(-ending)
	}
	if until.Before(since) {
		return since
	}
	return until
}

// mayEndWithoutNode reports whether a machine that is to go and has no node may be ended. One that its cloud takes is left to it.
func (p *planner) mayEndWithoutNode(m *g8s.SpotMachine) bool {
	switch m.Leaving.Reason {
	case g8s.LeavingGone:
		return false
	case g8s.LeavingInterrupted:
		return p.isOverdue(m)
	}
	return true
}

func (p *planner) isOverdue(m *g8s.SpotMachine) bool {
	return m.Leaving.End == nil || p.since(*m.Leaving.End) >= overdue
}

// end has a machine ended, which is remembered first. It is asked for again until the cloud calls it ended.
func (p *planner) end(m *g8s.SpotMachine, may bool) {
	m.Leaving.Ending = m.Leaving.Ending || may
	if !m.Leaving.Ending || m.Instance == "" || !p.facts.Answered {
		return
	}
	if instance := p.byID[m.Instance]; instance != nil && (instance.State == Stopping || instance.State == Ended) {
		return
	}
	p.plan.Terminate = append(p.plan.Terminate, m.Instance)
}

func stateOf(m *g8s.SpotMachine, node *Node) string {
	switch {
	case m.Leaving != nil && m.Leaving.Reason == g8s.LeavingGone:
		return g8s.MachineGone
	case m.Leaving != nil:
		return g8s.MachineLeaving
	case m.Instance == "":
		return g8s.MachineLaunching
	case node == nil || m.JoinedAt == nil:
		return g8s.MachineStarting
	}
	return g8s.MachineJoined
}

// Result is what came of an order.
type Result struct {
	Order
	Instance string
	Err      error
	// Replayed says that it was asked for before, and may have been carried out.
	Replayed bool
}

// Record is the status after orders were answered.
func Record(status *g8s.SpotPoolStatus, results []Result, now time.Time) {
	refused := map[g8s.SpotOffer]bool{}
	for _, result := range results {
		i := indexOf(status.Machines, result.Machine)
		if i < 0 {
			continue
		}
		kind := kindOf(result.Err)
		switch {
		case result.Err == nil:
			status.Machines[i].Instance = result.Instance
			status.Machines[i].State = g8s.MachineStarting
			status.Failures, status.RetryAfter = 0, nil
			status.Offers = without(status.Offers, result.InstanceType, result.Zone)
			continue
		case kind == SoldOut || kind == Refused:
			refused[g8s.SpotOffer{InstanceType: result.InstanceType, Zone: result.Zone, Reason: words(result.Err)}] = true
		}
		// Who asks again under a token is told what came of it the first time; but who asks too often is not heard at all.
		if kind == SoldOut || kind == Refused || kind != Lost && !result.Replayed {
			status.Machines = append(status.Machines[:i], status.Machines[i+1:]...)
		}
	}
	for offer := range refused {
		status.Offers = failedOffer(status.Offers, offer, now)
	}
	if err := callFailure(results); err != nil {
		Failed(status, err, now)
	}
}

// callFailure is the worst of what went wrong with calls, and not with what was ordered.
func callFailure(results []Result) (worst error) {
	for _, result := range results {
		if result.Err == nil {
			continue
		}
		kind := kindOf(result.Err)
		if kind == SoldOut || kind == Refused || worst != nil && kindOf(worst) >= kind {
			continue
		}
		worst = result.Err
	}
	return worst
}

// Failed is the status after a call of the cloud has failed. What goes wrong now and then is tried again soon, as machines may be
// missing meanwhile; what goes wrong all the time is not.
func Failed(status *g8s.SpotPoolStatus, err error, now time.Time) {
	status.Failures = min(status.Failures+1, maxFailures)
	first, most := 2*time.Second, 5*time.Second
	switch {
	case kindOf(err) == Denied:
		first, most = 15*time.Second, 5*time.Minute
	case status.Failures > manyFailures:
		most = 30 * time.Second
	}
	status.RetryAfter = ptr.To(metav1.NewTime(now.Add(backOff(status.Failures, first, most))))
}

// manyFailures are more than chance.
const manyFailures = 10

// maxFailures is beyond what any back-off tells apart.
const maxFailures = 100

// backOff doubles with each failure, within bounds.
func backOff(failures int32, first, most time.Duration) time.Duration {
	out := first
	for range failures - 1 {
		if out *= 2; out >= most {
			return most
		}
	}
	return out
}

func failedOffer(offers []g8s.SpotOffer, offer g8s.SpotOffer, now time.Time) []g8s.SpotOffer {
	for _, old := range offers {
		if old.InstanceType == offer.InstanceType && old.Zone == offer.Zone {
			offer.Failures = min(old.Failures, maxFailures)
		}
	}
	offer.Failures++
	offer.RetryAfter = metav1.NewTime(now.Add(backOff(offer.Failures, 10*time.Second, 5*time.Minute)))
	return append(without(offers, offer.InstanceType, offer.Zone), offer)
}

func without(offers []g8s.SpotOffer, instanceType, zone string) []g8s.SpotOffer {
	var out []g8s.SpotOffer
	for _, offer := range offers {
		if offer.InstanceType != instanceType || offer.Zone != zone {
			out = append(out, offer)
		}
	}
	return out
}

func indexOf(machines []g8s.SpotMachine, name string) int {
	for i := range machines {
		if machines[i].Name == name {
			return i
		}
	}
	return -1
}

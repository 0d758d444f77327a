package spot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// evictLead is how long before a machine's end its pods are evicted at the latest: their termination time plus a margin.
	evictLead = 40 * time.Second
	// closedFor is how long the node of an idle machine gets no new pods before the machine is terminated. A pod that was being bound is visible by
	// then.
	closedFor = 5 * time.Second
	// overdueAfter is how long after its announced end an empty machine that still runs is terminated by us.
	overdueAfter = 2 * time.Minute
	// deletionGrace is how long the jobs of a deleted SpotPool may keep a machine after their deadline.
	deletionGrace = 5 * time.Minute
	// deleteAfter is how long the node of an ended machine stays at most while its pods are ended.
	deleteAfter = 60 * time.Second
)

// planMachine plans the actions for a machine and its node.
func (p *planner) planMachine(m *g8s.SpotMachine) {
	node := p.nodes[m.Name]
	m.State = stateOf(m, node)
	if node == nil {
		if m.Leaving != nil {
			p.requeueWithin(requeueSoon)
			p.endMachine(m, p.mayEndWithoutNode(m))
		}
		return
	}
	out := NodeStep{Name: node.Name, Machine: m.Name, Starting: m.JoinedAt == nil}
	if m.Leaving != nil {
		p.requeueWithin(requeueSoon)
		out.Leaving = m.Leaving.Reason
		p.planEmptying(m, node, &out)
	}
	p.plan.Nodes = append(p.plan.Nodes, out)
}

// planEmptying plans the emptying of a leaving machine's node, and then the machine's termination.
func (p *planner) planEmptying(m *g8s.SpotMachine, node *Node, out *NodeStep) {
	since := p.elapsedSince(m.Leaving.Since)
	if m.Leaving.Reason == g8s.LeavingGone {
		out.Gone, out.Evict = true, node.Pods > 0
		out.Delete = node.Pods == 0 || since >= deleteAfter
		return
	}
	out.Evict = true
	switch m.Leaving.Reason {
	case g8s.LeavingIdle:
		p.endMachine(m, node.Pods == 0 && since >= closedFor)
		return
	case g8s.LeavingNeverJoined, g8s.LeavingFailed:
		p.endMachine(m, true)
		return
	}
	until := p.evictAt(m, node)
	if left := until.Sub(p.facts.Now); left > 0 {
		out.Evict, out.Checkpoint = false, until
		p.requeueWithin(left)
	}
	p.endMachine(m, p.mayEnd(m, node.Pods == 0, until))
}

// mayEnd reports whether a machine may be terminated that leaves for a reason that gives its pods time.
func (p *planner) mayEnd(m *g8s.SpotMachine, isEmpty bool, until time.Time) bool {
	isClosed := isEmpty && p.elapsedSince(m.Leaving.Since) >= closedFor
	switch m.Leaving.Reason {
	case g8s.LeavingInterrupted:
		return isEmpty && p.isOverdue(m)
	case g8s.LeavingExcess:
		return isClosed
	case g8s.LeavingDeleted:
		return isClosed || p.facts.Now.Sub(until) >= deletionGrace
	}
	return false
}

// evictAt returns when the pods of a machine are evicted: at once, unless one asks for time to save its state.
func (p *planner) evictAt(m *g8s.SpotMachine, node *Node) time.Time {
	since := m.Leaving.Since.Time
	if !node.WantsCheckpoint {
		return since
	}
	until := since.Add(time.Duration(secondsOr(p.spec.DrainSeconds, 60)) * time.Second)
	if end := m.Leaving.End; end != nil && until.After(end.Add(-evictLead)) {
		until = end.Add(-evictLead)
	}
	if until.Before(since) {
		return since
	}
	return until
}

// mayEndWithoutNode reports whether a leaving machine without a node may be terminated. One that its cloud reclaims is left to the cloud.
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
	return m.Leaving.End == nil || p.elapsedSince(*m.Leaving.End) >= overdueAfter
}

// endMachine plans the termination of a machine, after the status records it. It is requested until the cloud reports the end.
func (p *planner) endMachine(m *g8s.SpotMachine, may bool) {
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

// Result is the result of an order.
type Result struct {
	Order
	Instance string
	Err      error
	// Replayed says that the order was repeated and may have been fulfilled before.
	Replayed bool
}

// RecordResults updates the status with the results of orders.
func RecordResults(status *g8s.SpotPoolStatus, results []Result, now time.Time) {
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
			status.Offers = withoutOffer(status.Offers, result.InstanceType, result.Zone)
			continue
		case kind == SoldOut || kind == Refused:
			refused[g8s.SpotOffer{InstanceType: result.InstanceType, Zone: result.Zone, Reason: errorText(result.Err)}] = true
		}
		// A repeated token returns the result of the first request, but a throttled request is not processed at all.
		if kind == SoldOut || kind == Refused || kind != Lost && !result.Replayed {
			status.Machines = append(status.Machines[:i], status.Machines[i+1:]...)
		}
	}
	for offer := range refused {
		status.Offers = failedOffer(status.Offers, offer, now)
	}
	if err := callFailure(results); err != nil {
		RecordFailure(status, err, now)
	}
}

// callFailure returns the worst error of the calls themselves, ignoring errors of what was ordered.
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

// RecordFailure updates the status after a failed call. Occasional failures are retried soon, because machines may be missing meanwhile; persistent ones are
// retried less often.
func RecordFailure(status *g8s.SpotPoolStatus, err error, now time.Time) {
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

// manyFailures indicate a persistent failure.
const manyFailures = 10

// maxFailures exceeds what any backoff distinguishes.
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
	return append(withoutOffer(offers, offer.InstanceType, offer.Zone), offer)
}

func withoutOffer(offers []g8s.SpotOffer, instanceType, zone string) []g8s.SpotOffer {
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

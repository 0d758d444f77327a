package spot

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Facts are the input of a decision.
type Facts struct {
	// Pool is the SpotPool, with what its status remembers.
	Pool *g8s.SpotPool
	// Answered says that the cloud listed its machines, which are Instances. Failure is the error otherwise. Waiting says that the cloud was not
	// called because of earlier failures.
	Answered  bool
	Failure   error
	Waiting   bool
	Instances []Instance
	// Unbuyable is why no machine can be bought although the cloud answers; nil if one can.
	Unbuyable error
	// Secrets are the versions of the Secrets that the spec names.
	Secrets []g8s.ObservedSecret
	// Nodes are those that may be of its machines.
	Nodes  []Node
	Demand Demand
	Now    time.Time
}

// Node is a node that may be a machine's.
type Node struct {
	Name string
	// Instance is the last part of its provider ID, "" if it has none.
	Instance string
	Origin
	Ready bool
	// Alive says that the node is ready and, if its machine is not listed, that its kubelet has renewed its lease recently.
	Alive bool
	// Interruption is when its machine will be reclaimed, according to the node.
	Interruption time.Time
	// Jobs counts the pods that use GPUs, which hold GPUs. Pods counts the pods that must be moved before the node goes.
	Jobs, Pods int
	GPUs       int64
	// Kept says that a pod of the node requires a decision by an administrator. WantsCheckpoint says that a pod, or another of its gang, wants to
	// save its state.
	Kept, WantsCheckpoint bool
}

// Demand is the demand for GPUs of the pool.
type Demand struct {
	// Machines is how many machines the waiting pods would fill.
	Machines int
	// Advice is how many more nodes would start the waiting pods, computed by the scheduler's code at AsOf; nil if unknown.
	Advice *int
	AsOf   time.Time
}

// Plan is the planned actions. The status is written first.
type Plan struct {
	Status g8s.SpotPoolStatus
	// Launch are the machines to buy. Those in Replay may have been bought before.
	Launch []Order
	Replay map[string]bool
	// Terminate are instances to end.
	Terminate []string
	Nodes     []NodeStep
	// Refused are nodes that seem to belong to the SpotPool's machines and are left alone.
	Refused []RefusedNode
	// Done says that nothing is left of a deleted SpotPool.
	Done bool
	// Again is the longest time until the next reconciliation.
	Again time.Duration
}

// NodeStep is the action for a machine's node. The zero value except for Name keeps it open.
type NodeStep struct {
	Name, Machine string
	// Leaving is why it gets no new pods, "" if it does. Starting says that it gets none because it has never been ready.
	Leaving  string
	Starting bool
	// Checkpoint is the deadline for jobs to save their state, zero if they are not asked.
	Checkpoint time.Time
	// Evict moves its pods and their gangs.
	Evict bool
	// Gone says that the machine and thus its pods have ended. Delete deletes the node.
	Gone, Delete bool
}

const (
	// settleTime is how long after the last request a bought machine is certain to be listed.
	settleTime = 15 * time.Minute
	// replayEvery is the retry interval of an order whose answer was lost.
	replayEvery = 4 * time.Second
	// missingFor is how long a listed machine must be missing to count as ended. unlistedFor is the same for one that was never listed, from its last
	// request.
	missingFor  = 10 * time.Second
	unlistedFor = 40 * time.Second
	// forgetFailures is how long after the last failed call failures are forgotten.
	forgetFailures = 5 * time.Minute
	// requeueInterval is the interval at which the cloud's machines are listed, requeueSoon the interval while something is in progress.
	requeueInterval = 10 * time.Second
	requeueSoon     = 5 * time.Second
)

// planner makes one plan.
type planner struct {
	facts    Facts
	spec     *g8s.SpotPoolSpec
	plan     Plan
	machines []g8s.SpotMachine
	byID     map[string]*Instance
	nodes    map[string]*Node // by machine
	// claimed are the machines from the previous status.
	claimed     map[string]bool
	staleReason string
}

// Decide returns the plan for a SpotPool.
func Decide(facts Facts) Plan {
	p := &planner{facts: facts, spec: &facts.Pool.Spec, byID: map[string]*Instance{}, nodes: map[string]*Node{}, claimed: map[string]bool{}}
	p.plan.Status = *facts.Pool.Status.DeepCopy()
	p.plan.Again = requeueInterval
	p.machines = p.plan.Status.Machines
	for _, machine := range p.machines {
		p.claimed[machine.Name] = true
	}
	p.forgetChanged()
	p.resetFailures()
	p.adoptInstances()
	p.matchNodes()
	p.staleReason = p.staleListReason()
	for i := range p.machines {
		p.observeMachine(&p.machines[i])
	}
	p.forgetUnbought()
	p.shrinkPool()
	p.growPool()
	p.replayOrders()
	for i := range p.machines {
		p.planMachine(&p.machines[i])
	}
	p.forgetGone()
	p.finishStatus()
	return p.plan
}

func (p *planner) decisionTime() metav1.Time                { return metav1.NewTime(p.facts.Now) }
func (p *planner) elapsedSince(t metav1.Time) time.Duration { return p.facts.Now.Sub(t.Time) }
func (p *planner) isDeleted() bool                          { return p.facts.Pool.DeletionTimestamp != nil }

// trustsList reports whether the list of machines can be trusted.
func (p *planner) trustsList() bool { return p.facts.Answered && p.staleReason == "" }

// requeueWithin limits the time until the next reconciliation.
func (p *planner) requeueWithin(after time.Duration) {
	p.plan.Again = min(p.plan.Again, max(after, time.Millisecond))
}

// resetFailures resets failures when the cloud answers again, or after some time without calls.
func (p *planner) resetFailures() {
	status := &p.plan.Status
	if status.RetryAfter == nil {
		return
	}
	condition := meta.FindStatusCondition(status.Conditions, g8s.ConditionCloudAnswers)
	if p.facts.Answered && condition != nil && condition.Reason == reasonListFailed || p.elapsedSince(*status.RetryAfter) >= forgetFailures {
		status.Failures, status.RetryAfter = 0, nil
	}
}

// staleListReason returns why the list of machines cannot be trusted, "" if it can: if no machine is listed but their nodes are alive, the list belongs
// to another account, or the cloud is unhealthy.
func (p *planner) staleListReason() string {
	lives := 0
	for i := range p.machines {
		machine := &p.machines[i]
		if machine.Instance == "" || !machine.Listed {
			continue
		}
		if p.byID[machine.Instance] != nil {
			return ""
		}
		if node := p.nodes[machine.Name]; node != nil && node.Alive && !p.isEnding(machine) {
			lives++
		}
	}
	if !p.facts.Answered || lives == 0 {
		return ""
	}
	return "the cloud shows none of the machines, and " + strconv.Itoa(lives) +
		" of their nodes are alive: is credentialsSecret that of another account?"
}

// isEnding reports whether a machine is expected to end, or to have ended.
func (p *planner) isEnding(m *g8s.SpotMachine) bool {
	return m.Leaving != nil && (m.Leaving.Ending || m.Leaving.End != nil && !m.Leaving.End.After(p.facts.Now))
}

// observeMachine updates the state of a machine.
func (p *planner) observeMachine(m *g8s.SpotMachine) {
	instance, node := p.byID[m.Instance], p.nodes[m.Name]
	p.observeInstance(m, instance)
	if node != nil && node.Ready && m.JoinedAt == nil {
		m.JoinedAt = ptr.To(p.decisionTime())
		p.recordJoined(m)
	}
	switch {
	case node == nil || !node.Ready || node.Jobs > 0:
		m.IdleSince = nil
	case m.IdleSince == nil:
		m.IdleSince = ptr.To(p.decisionTime())
	}
	if reason, end := p.leavingReason(m, instance, node); reason != "" {
		p.markLeaving(m, reason, end)
	}
}

// observeInstance updates a machine from the cloud's list.
func (p *planner) observeInstance(m *g8s.SpotMachine, instance *Instance) {
	switch {
	case instance != nil:
		m.Listed, m.MissingSince = true, nil
		m.PrivateIP, m.PublicIP = cmp.Or(instance.PrivateIP, m.PrivateIP), instance.PublicIP
	case m.Instance != "" && p.facts.Answered && m.Listed && m.MissingSince == nil:
		m.MissingSince = ptr.To(p.decisionTime())
	}
}

// leavingReason returns why a machine must leave by itself, and when its cloud reclaims it.
func (p *planner) leavingReason(m *g8s.SpotMachine, instance *Instance, node *Node) (reason string, end *metav1.Time) {
	if m.Leaving != nil && m.Leaving.Reason == g8s.LeavingGone {
		return "", nil
	}
	if p.hasEnded(m, instance) {
		return g8s.LeavingGone, nil
	}
	if m.Leaving != nil && m.Leaving.Ending {
		return "", nil // it is being terminated by us
	}
	if instance != nil && (instance.State == Broken || instance.State == Halted) {
		return g8s.LeavingFailed, nil
	}
	if at := p.interruptionTime(instance, node); !at.IsZero() {
		return g8s.LeavingInterrupted, ptr.To(metav1.NewTime(at))
	}
	if p.isLate(m) {
		return g8s.LeavingNeverJoined, nil
	}
	return "", nil
}

// isLate reports whether a machine should have joined the cluster long ago.
func (p *planner) isLate(m *g8s.SpotMachine) bool {
	return m.JoinedAt == nil && m.Instance != "" && p.elapsedSince(askedAt(m)) >= p.joinFor()
}

// hasEnded reports whether a machine has ended, according to its cloud or because it is missing.
func (p *planner) hasEnded(m *g8s.SpotMachine, instance *Instance) bool {
	if instance == nil {
		return p.isMissing(m)
	}
	return instance.State == Ended
}

// interruptionTime returns when the cloud reclaims a machine, according to the cloud or the node; zero if neither says so.
func (p *planner) interruptionTime(instance *Instance, node *Node) time.Time {
	switch {
	case instance != nil && instance.State == Stopping:
		return p.facts.Now
	case instance != nil && !instance.Interruption.IsZero():
		return instance.Interruption
	case node != nil:
		return node.Interruption
	}
	return time.Time{}
}

// isMissing reports whether a machine has ended because it is no longer listed.
func (p *planner) isMissing(m *g8s.SpotMachine) bool {
	if m.Instance == "" || !p.trustsList() {
		return false
	}
	if node := p.nodes[m.Name]; node != nil && node.Alive {
		p.requeueWithin(requeueSoon)
		return false // a machine whose kubelet is alive has not ended, whatever its cloud lists
	}
	if m.MissingSince != nil {
		if p.elapsedSince(*m.MissingSince) >= missingFor {
			return true
		}
		p.requeueWithin(requeueSoon)
		return false
	}
	return !m.Listed && p.elapsedSince(askedAt(m)) >= unlistedFor
}

// markLeaving marks a machine as leaving, once per reason.
func (p *planner) markLeaving(m *g8s.SpotMachine, reason string, end *metav1.Time) {
	if m.Leaving != nil && m.Leaving.Reason == reason {
		if end != nil && (m.Leaving.End == nil || end.Time.Before(m.Leaving.End.Time)) {
			m.Leaving.End = end
		}
		return
	}
	if m.Leaving != nil && reason == g8s.LeavingInterrupted {
		m.Leaving.End = end // it is leaving already and has less time now
		return
	}
	m.Leaving = &g8s.SpotLeaving{Reason: reason, Since: p.decisionTime(), End: end}
	halted := p.byID[m.Instance] != nil && p.byID[m.Instance].State == Halted
	switch {
	case m.JoinedAt == nil && (reason == g8s.LeavingNeverJoined || reason == g8s.LeavingFailed && halted):
		p.failedToJoin(m, halted)
	case reason == g8s.LeavingFailed:
		p.plan.Status.Offers = failedOffer(p.plan.Status.Offers, g8s.SpotOffer{
			InstanceType: m.InstanceType, Zone: m.Zone, Reason: "a machine could not be started",
		}, p.facts.Now)
	}
}

// forgetUnbought removes leaving machines that were certainly never bought. Others are requested until the cloud reports the result.
func (p *planner) forgetUnbought() {
	p.machines = slices.DeleteFunc(p.machines, func(m g8s.SpotMachine) bool {
		return m.Leaving != nil && m.Instance == "" && p.claimed[m.Name] && p.trustsList() && p.elapsedSince(askedAt(&m)) >= settleTime
	})
}

// askedAt is when the cloud was last asked for a machine.
func askedAt(m *g8s.SpotMachine) metav1.Time {
	if m.Asked != nil {
		return *m.Asked
	}
	return m.Requested
}

// forgetGone drops machines of which nothing is left.
func (p *planner) forgetGone() {
	p.machines = slices.DeleteFunc(p.machines, func(m g8s.SpotMachine) bool {
		return m.Leaving != nil && m.Leaving.Reason == g8s.LeavingGone && p.nodes[m.Name] == nil
	})
}

// liveMachines returns the machines that are not leaving.
func (p *planner) liveMachines() []*g8s.SpotMachine {
	var out []*g8s.SpotMachine
	for i := range p.machines {
		if p.machines[i].Leaving == nil {
			out = append(out, &p.machines[i])
		}
	}
	return out
}

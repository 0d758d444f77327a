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

// Facts are what a decision follows from.
type Facts struct {
	// Pool is the SpotPool, with what its status remembers.
	Pool *g8s.SpotPool
	// Answered says that the cloud was asked for its machines, which are Instances; Failure is why it was not. Waiting says that
	// it was not asked, as it has failed too often.
	Answered  bool
	Failure   error
	Waiting   bool
	Instances []Instance
	// Unbuyable is why no machine can be bought though the cloud answers, nil if it can.
	Unbuyable error
	// Secrets are the versions of those that the spec names.
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
	// Alive says that it is ready, and if its machine is not listed that its kubelet has said so a moment ago.
	Alive bool
	// Interruption is when its machine is taken back, as the node says.
	Interruption time.Time
	// Jobs is how many pods there use GPUs, which hold GPUs; Pods is how many there are that must be moved before the node goes.
	Jobs, Pods int
	GPUs       int64
	// Kept says that a person has to decide about a pod of it; Asks that a pod, or another of its gang, is to be told to save
	// its state.
	Kept, Asks bool
}

// Demand is what waits for GPUs of the pool.
type Demand struct {
	// Machines is how many machines what waits would fill.
	Machines int
	// Advice is how many more nodes would start what waits, as the scheduler's code has it at a time; nil while it is not known.
	Advice *int
	AsOf   time.Time
}

// Plan is what to do: the status is written first.
type Plan struct {
	Status g8s.SpotPoolStatus
	// Launch are machines to buy. Of those in Again it is not known whether they were bought before.
	Launch []Order
	Replay map[string]bool
	// Terminate are instances to end.
	Terminate []string
	Nodes     []NodeStep
	// Refused are nodes that seem to be of the SpotPool's machines, and are left alone.
	Refused []RefusedNode
	// Done says that nothing is left of a SpotPool that is deleted.
	Done bool
	// Again is when to look again at the latest.
	Again time.Duration
}

// NodeStep is what is to be done about the node of a machine. The zero value but for Name has it open.
type NodeStep struct {
	Name, Machine string
	// Leaving is why it gets no new pods, "" if it does; Starting says that it gets none as it was not ready yet.
	Leaving  string
	Starting bool
	// Checkpoint is by when the jobs that ask for it are to save their state, zero if they are not told to.
	Checkpoint time.Time
	// Evict has its pods moved, and the gangs of which they are.
	Evict bool
	// Gone says that its machine has ended: its pods have, too. Delete has the node deleted.
	Gone, Delete bool
}

const (
	// settle is how long after the cloud was last asked for a machine it has certainly been listed if it was bought.
	settle = 15 * time.Minute
	// replayEvery is how often a machine is asked for again whose answer was lost.
	replayEvery = 4 * time.Second
	// missingFor is how long a machine that was listed is not until it has ended, unlistedFor the same for one that never was,
	// from when it was last asked for.
	missingFor  = 10 * time.Second
	unlistedFor = 40 * time.Second
	// forgetFailures is how long after the last failure of a call they are forgotten.
	forgetFailures = 5 * time.Minute
	// look is how often the cloud is asked for its machines, lookSoon how often while something is under way.
	look     = 10 * time.Second
	lookSoon = 5 * time.Second
)

// planner makes one plan.
type planner struct {
	facts    Facts
	spec     *g8s.SpotPoolSpec
	plan     Plan
	machines []g8s.SpotMachine
	byID     map[string]*Instance
	nodes    map[string]*Node // by machine
	// claimed are the machines that the status knew of before.
	claimed map[string]bool
	blind   string
}

// Decide says what to do about a SpotPool.
func Decide(facts Facts) Plan {
	p := &planner{facts: facts, spec: &facts.Pool.Spec, byID: map[string]*Instance{}, nodes: map[string]*Node{}, claimed: map[string]bool{}}
	p.plan.Status = *facts.Pool.Status.DeepCopy()
	p.plan.Again = look
	p.machines = p.plan.Status.Machines
	for _, machine := range p.machines {
		p.claimed[machine.Name] = true
	}
	p.forgetChanged()
	p.forgive()
	p.adopt()
	p.matchNodes()
	p.blind = p.seesNothing()
	for i := range p.machines {
		p.observe(&p.machines[i])
	}
	p.forgetUnbought()
	p.shrink()
	p.grow()
	p.replay()
	for i := range p.machines {
		p.step(&p.machines[i])
	}
	p.forgetGone()
	p.conclude()
	return p.plan
}

func (p *planner) now() metav1.Time                  { return metav1.NewTime(p.facts.Now) }
func (p *planner) since(t metav1.Time) time.Duration { return p.facts.Now.Sub(t.Time) }
func (p *planner) deleted() bool                     { return p.facts.Pool.DeletionTimestamp != nil }

// sees reports whether the list of machines is to be believed.
func (p *planner) sees() bool { return p.facts.Answered && p.blind == "" }

// again has this looked at no later than after a while.
func (p *planner) again(after time.Duration) {
	p.plan.Again = min(p.plan.Again, max(after, time.Millisecond))
}

// forgive forgets failures that are over: the cloud answers again, or nothing was asked of it for a while.
func (p *planner) forgive() {
	status := &p.plan.Status
	if status.RetryAfter == nil {
		return
	}
	condition := meta.FindStatusCondition(status.Conditions, g8s.ConditionCloudAnswers)
	if p.facts.Answered && condition != nil && condition.Reason == reasonListFailed || p.since(*status.RetryAfter) >= forgetFailures {
		status.Failures, status.RetryAfter = 0, nil
	}
}

// seesNothing says why the list of machines is not to be believed, "" if it is: none of them is listed, and nodes of theirs are
// alive. That is the list of another account, or of a cloud that is not well.
func (p *planner) seesNothing() string {
	lives := 0
	for i := range p.machines {
		machine := &p.machines[i]
		if machine.Instance == "" || !machine.Listed {
			continue
		}
		if p.byID[machine.Instance] != nil {
			return ""
		}
		if node := p.nodes[machine.Name]; node != nil && node.Alive && !p.isToEnd(machine) {
			lives++
		}
	}
	if !p.facts.Answered || lives == 0 {
		return ""
	}
	return "the cloud shows none of the machines, and " + strconv.Itoa(lives) +
		" of their nodes are alive: is credentialsSecret that of another account?"
}

// isToEnd reports whether a machine is expected to end, or to have ended.
func (p *planner) isToEnd(m *g8s.SpotMachine) bool {
	return m.Leaving != nil && (m.Leaving.Ending || m.Leaving.End != nil && !m.Leaving.End.After(p.facts.Now))
}

// observe takes note of how a machine is.
func (p *planner) observe(m *g8s.SpotMachine) {
	instance, node := p.byID[m.Instance], p.nodes[m.Name]
	p.observeInstance(m, instance)
	if node != nil && node.Ready && m.JoinedAt == nil {
		m.JoinedAt = ptr.To(p.now())
		p.joined(m)
	}
	switch {
	case node == nil || !node.Ready || node.Jobs > 0:
		m.IdleSince = nil
	case m.IdleSince == nil:
		m.IdleSince = ptr.To(p.now())
	}
	if reason, end := p.mustGo(m, instance, node); reason != "" {
		p.leave(m, reason, end)
	}
}

// observeInstance takes note of what the cloud shows of a machine.
func (p *planner) observeInstance(m *g8s.SpotMachine, instance *Instance) {
	switch {
	case instance != nil:
		m.Listed, m.MissingSince = true, nil
		m.PrivateIP, m.PublicIP = cmp.Or(instance.PrivateIP, m.PrivateIP), instance.PublicIP
	case m.Instance != "" && p.facts.Answered && m.Listed && m.MissingSince == nil:
		m.MissingSince = ptr.To(p.now())
	}
}

// mustGo says why a machine is to go by itself, and when its cloud takes it.
func (p *planner) mustGo(m *g8s.SpotMachine, instance *Instance, node *Node) (reason string, end *metav1.Time) {
	if m.Leaving != nil && m.Leaving.Reason == g8s.LeavingGone {
		return "", nil
	}
	if p.hasEnded(m, instance) {
		return g8s.LeavingGone, nil
	}
	if m.Leaving != nil && m.Leaving.Ending {
		return "", nil // it ends, as we want it
	}
	if instance != nil && (instance.State == Broken || instance.State == Halted) {
		return g8s.LeavingFailed, nil
	}
	if at := p.interruption(instance, node); !at.IsZero() {
		return g8s.LeavingInterrupted, ptr.To(metav1.NewTime(at))
	}
	if p.isLate(m) {
		return g8s.LeavingNeverJoined, nil
	}
	return "", nil
}

// isLate reports whether a machine should have joined the cluster long ago.
func (p *planner) isLate(m *g8s.SpotMachine) bool {
	return m.JoinedAt == nil && m.Instance != "" && p.since(askedAt(m)) >= p.joinFor()
}

// hasEnded reports whether a machine is no more, by the word of its cloud or because it is missing.
func (p *planner) hasEnded(m *g8s.SpotMachine, instance *Instance) bool {
	if instance == nil {
		return p.isMissing(m)
	}
	return instance.State == Ended
}

// interruption is when the cloud takes a machine back, by its own word or by that of the node; zero if neither says so.
func (p *planner) interruption(instance *Instance, node *Node) time.Time {
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

// isMissing reports whether a machine has ended, as it is not listed any more.
func (p *planner) isMissing(m *g8s.SpotMachine) bool {
	if m.Instance == "" || !p.sees() {
		return false
	}
	if node := p.nodes[m.Name]; node != nil && node.Alive {
		p.again(lookSoon)
		return false // a machine whose kubelet speaks has not ended, whatever its cloud shows
	}
	if m.MissingSince != nil {
		if p.since(*m.MissingSince) >= missingFor {
			return true
		}
		p.again(lookSoon)
		return false
	}
	return !m.Listed && p.since(askedAt(m)) >= unlistedFor
}

// leave marks a machine, once for each reason.
func (p *planner) leave(m *g8s.SpotMachine, reason string, end *metav1.Time) {
	if m.Leaving != nil && m.Leaving.Reason == reason {
		if end != nil && (m.Leaving.End == nil || end.Time.Before(m.Leaving.End.Time)) {
			m.Leaving.End = end
		}
		return
	}
	if m.Leaving != nil && reason == g8s.LeavingInterrupted {
		m.Leaving.End = end // it goes already, and has less time now
		return
	}
	m.Leaving = &g8s.SpotLeaving{Reason: reason, Since: p.now(), End: end}
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

// forgetUnbought drops machines that are to go and of which it is certain by now that they were not bought. Those that stay are
// asked for until the cloud says what came of it.
func (p *planner) forgetUnbought() {
	p.machines = slices.DeleteFunc(p.machines, func(m g8s.SpotMachine) bool {
		return m.Leaving != nil && m.Instance == "" && p.claimed[m.Name] && p.sees() && p.since(askedAt(&m)) >= settle
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

// live are the machines that stay.
func (p *planner) live() []*g8s.SpotMachine {
	var out []*g8s.SpotMachine
	for i := range p.machines {
		if p.machines[i].Leaving == nil {
			out = append(out, &p.machines[i])
		}
	}
	return out
}

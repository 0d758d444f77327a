package spot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// shrinkPool marks excess machines as leaving: all of a deleted SpotPool, those beyond the maximum, and those beyond the minimum that have been idle for
// a while. Marked machines that are no longer in excess stay.
func (p *planner) shrinkPool() {
	if p.isDeleted() {
		for _, m := range p.liveMachines() {
			p.markLeaving(m, g8s.LeavingDeleted, nil)
		}
		return
	}
	p.keepWanted()
	live := p.liveMachines()
	if excess := len(live) - int(p.spec.Maximum); excess > 0 {
		for _, m := range p.leastLoaded(live)[:excess] {
			p.markLeaving(m, g8s.LeavingExcess, nil)
		}
		return
	}
	if p.machinesWanted() > 0 {
		return
	}
	idle := time.Duration(secondsOr(p.spec.IdleSeconds, 600)) * time.Second
	spare := len(live) - p.countStarting() - int(p.spec.Minimum)
	if demand := p.facts.Demand; demand.Advice == nil { // the waiting pods may need as many of them as they would fill
		spare = min(spare, p.countIdle()-demand.Machines)
	}
	for _, m := range p.leastLoaded(live) {
		if spare <= 0 {
			return
		}
		if m.IdleSince == nil || m.JoinedAt == nil {
			continue
		}
		if left := idle - p.elapsedSince(*m.IdleSince); left > 0 {
			p.requeueWithin(left)
			continue
		}
		p.markLeaving(m, g8s.LeavingIdle, nil)
		spare--
	}
}

// keepWanted unmarks excess machines: a job arrived before the node was closed, or they are needed again.
func (p *planner) keepWanted() {
	room := int(p.spec.Maximum) - len(p.liveMachines())
	short := max(int(p.spec.Minimum)-len(p.liveMachines()), p.machinesWanted()-p.countStarting())
	for i := range p.machines {
		m := &p.machines[i]
		if m.Leaving == nil || m.Leaving.Ending || m.Leaving.End != nil || room <= 0 {
			continue
		}
		node := p.nodes[m.Name]
		switch {
		case m.Leaving.Reason == g8s.LeavingIdle && (short > 0 || node != nil && node.Jobs > 0):
		case m.Leaving.Reason == g8s.LeavingExcess: // there is capacity for it
		default:
			continue
		}
		m.Leaving = nil
		room--
		short--
	}
}

// leastLoaded sorts machines in the order in which they are given up: unconfirmed ones, those that do not run, those with the fewest GPUs in use, and
// the youngest. Machines with a pod that requires an administrator's decision come last.
func (p *planner) leastLoaded(machines []*g8s.SpotMachine) []*g8s.SpotMachine {
	weight := func(m *g8s.SpotMachine) (kept, joined int, gpus int64, jobs int) {
		if m.Instance != "" {
			joined++
		}
		if node := p.nodes[m.Name]; node != nil {
			if node.Kept {
				kept = 1
			}
			if node.Ready {
				joined++
			}
			return kept, joined, node.GPUs, node.Jobs
		}
		return 0, joined, 0, 0
	}
	out := slices.Clone(machines)
	slices.SortStableFunc(out, func(a, b *g8s.SpotMachine) int {
		keptA, joinedA, gpusA, jobsA := weight(a)
		keptB, joinedB, gpusB, jobsB := weight(b)
		return cmp.Or(
			cmp.Compare(keptA, keptB), cmp.Compare(joinedA, joinedB), cmp.Compare(gpusA, gpusB), cmp.Compare(jobsA, jobsB),
			b.Requested.Compare(a.Requested.Time), cmp.Compare(b.Name, a.Name),
		)
	})
	return out
}

// machinesWanted returns how many machines beside the joined ones would start the waiting pods.
func (p *planner) machinesWanted() int {
	demand := p.facts.Demand
	for _, m := range p.liveMachines() {
		if m.JoinedAt != nil && demand.Advice != nil && m.JoinedAt.After(demand.AsOf) {
			return 0 // the advice did not include it
		}
	}
	if demand.Advice != nil {
		return *demand.Advice
	}
	return max(0, demand.Machines-p.countIdle()) // another machine does not help what waits beside an idle one
}

// countIdle returns how many machines run nothing.
func (p *planner) countIdle() int {
	count := 0
	for _, m := range p.liveMachines() {
		if m.IdleSince != nil {
			count++
		}
	}
	return count
}

// countStarting returns how many machines have not joined yet.
func (p *planner) countStarting() int {
	count := 0
	for _, m := range p.liveMachines() {
		if m.JoinedAt == nil {
			count++
		}
	}
	return count
}

// growPool buys machines up to the minimum, and up to the maximum for waiting pods.
func (p *planner) growPool() {
	if p.isDeleted() || !p.trustsList() || p.facts.Unbuyable != nil {
		return
	}
	live := len(p.liveMachines())
	count := max(int(p.spec.Minimum)-live, min(p.machinesWanted()-p.countStarting(), int(p.spec.Maximum)-live))
	if count <= 0 {
		return
	}
	if left := max(p.retryIn(), p.joinRetryIn()); left > 0 {
		p.requeueWithin(left)
		return
	}
	instanceType, zone, left := p.joiningOffer()
	if instanceType == "" {
		p.requeueWithin(left)
		return
	}
	for range min(count, p.maxToTry(instanceType, zone), maxOrders-min(len(p.unconfirmedMachines()), maxOrders/2)) {
		name := machineName(p.facts.Pool.Name, string(p.facts.Pool.UID)+"/"+strconv.FormatInt(p.plan.Status.Serial, 10))
		p.plan.Status.Serial++
		p.machines = append(p.machines, g8s.SpotMachine{Name: name, InstanceType: instanceType, Zone: zone, Requested: p.decisionTime()})
		p.orderMachine(&p.machines[len(p.machines)-1])
	}
}

// maxOrders bounds the machines ordered at a time. All orders of a plan are placed at once, so that each is placed when its status says so: a queued
// order might be forgotten as never bought, and be bought later.
const maxOrders = buyers

// unconfirmedMachines returns the machines whose purchase is unconfirmed, the longest waiting first: their answers were lost, or received by a former
// controller.
func (p *planner) unconfirmedMachines() []*g8s.SpotMachine {
	out := slices.DeleteFunc(p.liveMachines(), func(m *g8s.SpotMachine) bool { return m.Instance != "" || !p.claimed[m.Name] })
	slices.SortStableFunc(out, func(a, b *g8s.SpotMachine) int { return askedAt(a).Compare(askedAt(b).Time) })
	return out
}

// replayOrders repeats unconfirmed orders until they are confirmed: with the same token the cloud returns the first result, and ordering another machine
// instead could buy two.
func (p *planner) replayOrders() {
	p.plan.Replay = map[string]bool{}
	doubtful := p.unconfirmedMachines()
	if !p.facts.Answered || p.facts.Unbuyable != nil || len(doubtful) == 0 {
		return // there may be no account
	}
	p.requeueWithin(requeueSoon)
	if left := p.retryIn(); left > 0 {
		p.requeueWithin(left)
		return
	}
	for _, m := range doubtful[:min(len(doubtful), maxOrders-len(p.plan.Launch))] {
		if p.elapsedSince(askedAt(m)) >= replayEvery {
			p.plan.Replay[m.Name] = true
			p.orderMachine(m)
		}
	}
}

// orderMachine plans the purchase of a machine, which the status records first.
func (p *planner) orderMachine(m *g8s.SpotMachine) {
	m.Asked = ptr.To(p.decisionTime())
	p.plan.Launch = append(p.plan.Launch, Order{
		Machine: m.Name, Token: OrderToken(p.facts.Pool, m.Name), InstanceType: m.InstanceType, Zone: m.Zone,
	})
}

// retryIn returns how long purchases pause.
func (p *planner) retryIn() time.Duration {
	if after := p.plan.Status.RetryAfter; after != nil {
		return after.Sub(p.facts.Now)
	}
	return 0
}

// availableOffers returns the types and zones that may be available, the preferred first, and if there is none how long until one may be tried.
func (p *planner) availableOffers() (out []offer, left time.Duration) {
	left = requeueInterval
	for _, instanceType := range p.spec.Template.InstanceTypes {
		for _, zone := range p.spec.Template.Zones {
			i := slices.IndexFunc(p.plan.Status.Offers, func(o g8s.SpotOffer) bool {
				return o.InstanceType == instanceType && o.Zone == zone.Name
			})
			if i < 0 || !p.plan.Status.Offers[i].RetryAfter.After(p.facts.Now) {
				out = append(out, offer{instanceType, zone.Name})
				continue
			}
			left = min(left, p.plan.Status.Offers[i].RetryAfter.Sub(p.facts.Now))
		}
	}
	return out, left
}

// offer is a type in a zone.
type offer struct{ instanceType, zone string }

// OrderToken returns the order token of a machine: it follows from its name and is unique to the SpotPool.
func OrderToken(pool *g8s.SpotPool, machine string) string {
	sum := sha256.Sum256([]byte(string(pool.UID) + "/" + machine))
	return hex.EncodeToString(sum[:20])
}

// machineName returns a DNS label that is unique per seed.
func machineName(pool, seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return pool + "-" + hex.EncodeToString(sum[:4])
}

var seedPattern = regexp.MustCompile(`^[0-9a-f]{8}$`)

// isMachineName reports whether a name is one that machines of a SpotPool get. A tag may contain any other name, such as that of a foreign node.
func isMachineName(pool, name string) bool {
	seed, ok := strings.CutPrefix(name, pool+"-")
	return ok && seedPattern.MatchString(seed)
}

// secondsOr returns a number of seconds of a spec, or its default.
func secondsOr(value *int32, otherwise int32) int32 {
	if value == nil {
		return otherwise
	}
	return *value
}

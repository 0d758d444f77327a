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

// shrink marks excess machines as leaving: all of a deleted SpotPool, those beyond the maximum, and those beyond the minimum that have been idle for
// a while. Marked machines that are no longer in excess stay.
func (p *planner) shrink() {
	if p.deleted() {
		for _, m := range p.live() {
			p.leave(m, g8s.LeavingDeleted, nil)
		}
		return
	}
	p.keep()
	live := p.live()
	if excess := len(live) - int(p.spec.Maximum); excess > 0 {
		for _, m := range p.leastLoaded(live)[:excess] {
			p.leave(m, g8s.LeavingExcess, nil)
		}
		return
	}
	if p.more() > 0 {
		return
	}
	idle := time.Duration(seconds(p.spec.IdleSeconds, 600)) * time.Second
	spare := len(live) - p.starting() - int(p.spec.Minimum)
	if demand := p.facts.Demand; demand.Advice == nil { // the waiting pods may need as many of them as they would fill
		spare = min(spare, p.idle()-demand.Machines)
	}
	for _, m := range p.leastLoaded(live) {
		if spare <= 0 {
			return
		}
		if m.IdleSince == nil || m.JoinedAt == nil {
			continue
		}
		if left := idle - p.since(*m.IdleSince); left > 0 {
			p.again(left)
			continue
		}
		p.leave(m, g8s.LeavingIdle, nil)
		spare--
	}
}

// keep unmarks excess machines: a job arrived before the node was closed, or they are needed again.
func (p *planner) keep() {
	room := int(p.spec.Maximum) - len(p.live())
	short := max(int(p.spec.Minimum)-len(p.live()), p.more()-p.starting())
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

// more returns how many machines beside the joined ones would start the waiting pods.
func (p *planner) more() int {
	demand := p.facts.Demand
	for _, m := range p.live() {
		if m.JoinedAt != nil && demand.Advice != nil && m.JoinedAt.After(demand.AsOf) {
			return 0 // the advice did not include it
		}
	}
	if demand.Advice != nil {
		return *demand.Advice
	}
	return max(0, demand.Machines-p.idle()) // another machine does not help what waits beside an idle one
}

// idle returns how many machines run nothing.
func (p *planner) idle() int {
	count := 0
	for _, m := range p.live() {
		if m.IdleSince != nil {
			count++
		}
	}
	return count
}

// starting returns how many machines have not joined yet.
func (p *planner) starting() int {
	count := 0
	for _, m := range p.live() {
		if m.JoinedAt == nil {
			count++
		}
	}
	return count
}

// grow buys machines up to the minimum, and up to the maximum for waiting pods.
func (p *planner) grow() {
	if p.deleted() || !p.sees() || p.facts.Unbuyable != nil {
		return
	}
	live := len(p.live())
	count := max(int(p.spec.Minimum)-live, min(p.more()-p.starting(), int(p.spec.Maximum)-live))
	if count <= 0 {
		return
	}
	if left := max(p.retryIn(), p.joinsIn()); left > 0 {
		p.again(left)
		return
	}
	instanceType, zone, left := p.joiningOffer()
	if instanceType == "" {
		p.again(left)
		return
	}
	for range min(count, p.mayTry(instanceType, zone), atOnce-min(len(p.doubtful()), atOnce/2)) {
		name := machineName(p.facts.Pool.Name, string(p.facts.Pool.UID)+"/"+strconv.FormatInt(p.plan.Status.Serial, 10))
		p.plan.Status.Serial++
		p.machines = append(p.machines, g8s.SpotMachine{Name: name, InstanceType: instanceType, Zone: zone, Requested: p.now()})
		p.order(&p.machines[len(p.machines)-1])
	}
}

// atOnce bounds the machines ordered at a time. All orders of a plan are placed at once, so that each is placed when its status says so: a queued
// order might be forgotten as never bought, and be bought later.
const atOnce = buyers

// doubtful returns the machines whose purchase is unconfirmed, the longest waiting first: their answers were lost, or received by a former
// controller.
func (p *planner) doubtful() []*g8s.SpotMachine {
	out := slices.DeleteFunc(p.live(), func(m *g8s.SpotMachine) bool { return m.Instance != "" || !p.claimed[m.Name] })
	slices.SortStableFunc(out, func(a, b *g8s.SpotMachine) int { return askedAt(a).Compare(askedAt(b).Time) })
	return out
}

// replay repeats unconfirmed orders until they are confirmed: with the same token the cloud returns the first result, and ordering another machine
// instead could buy two.
func (p *planner) replay() {
	p.plan.Replay = map[string]bool{}
	doubtful := p.doubtful()
	if !p.facts.Answered || p.facts.Unbuyable != nil || len(doubtful) == 0 {
		return // there may be no account
	}
	p.again(lookSoon)
	if left := p.retryIn(); left > 0 {
		p.again(left)
		return
	}
	for _, m := range doubtful[:min(len(doubtful), atOnce-len(p.plan.Launch))] {
		if p.since(askedAt(m)) >= replayEvery {
			p.plan.Replay[m.Name] = true
			p.order(m)
		}
	}
}

// order plans the purchase of a machine, which the status records first.
func (p *planner) order(m *g8s.SpotMachine) {
	m.Asked = ptr.To(p.now())
	p.plan.Launch = append(p.plan.Launch, Order{
		Machine: m.Name, Token: Token(p.facts.Pool, m.Name), InstanceType: m.InstanceType, Zone: m.Zone,
	})
}

// retryIn returns how long purchases pause.
func (p *planner) retryIn() time.Duration {
	if after := p.plan.Status.RetryAfter; after != nil {
		return after.Sub(p.facts.Now)
	}
	return 0
}

// offered returns the types and zones that may be available, the preferred first, and if there is none how long until one may be tried.
func (p *planner) offered() (out []offer, left time.Duration) {
	left = look
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

// Token returns the order token of a machine: it follows from its name and is unique to the SpotPool.
func Token(pool *g8s.SpotPool, machine string) string {
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

// seconds returns a number of seconds of a spec, or its default.
func seconds(value *int32, otherwise int32) int32 {
	if value == nil {
		return otherwise
	}
	return *value
}

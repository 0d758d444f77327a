package recovery

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// Settings are an administrator's.
type Settings struct {
	// OutOfServiceAfter is how long after its last sign of life a machine is certainly off; 0 says that silence proves
	// nothing.
	OutOfServiceAfter time.Duration
	// SilentAfter is how long after its last sign of life a machine is taken for dead though nothing proves it, unless a pod of it holds a
	// volume that is for one node at a time; 0 never does.
	SilentAfter time.Duration
	// Budget is how many nodes of a pool may be out of service by our doing at once, in percent; one always may.
	Budget int
	// BackOff is how long a node must be ready after its first failure before it gets new pods, MaxBackOff after many.
	BackOff, MaxBackOff time.Duration
	// Forget is how long after a failure it no longer counts.
	Forget time.Duration
	// Conditions are types of conditions of nodes that make a node suspect while they are true, such as those that
	// node-problem-detector sets.
	Conditions []string
}

// startUp is how long after its creation a node registers: one that has not been ready since is starting, and has not
// failed.
const startUp = 10 * time.Second

const (
	// missed is the silence of a kubelet that has missed two renewals of its lease, which come every 10 s.
	missed = 25 * time.Second
	// heldAgain is how soon a node is looked at again that is not declared dead because others are silent, too: that one of
	// them speaks again may change nothing but its lease.
	heldAgain = 5 * time.Second
)

// Node is what a decision about a node depends on.
type Node struct {
	Name    string
	Created time.Time
	// Ready is the status of its condition of that name, and Since when that changed last.
	Ready corev1.ConditionStatus
	Since time.Time
	// Bad is one of [Settings.Conditions] that is true, "" if none is, and BadSince when it became so. WellSince is when the last
	// of them ceased to be.
	Bad                 string
	BadSince, WellSince time.Time
	// Silence is how long it has certainly given no sign of life: 0 where that is not known.
	Silence time.Duration
	// Closed says that a person has cordoned it.
	Closed bool
	// ShutDown says that its cloud has called the machine off.
	ShutDown bool
	// Suspect and OutOfService say that it has our taints; OutOfServiceByOthers that somebody else calls it so.
	Suspect, OutOfService, OutOfServiceByOthers bool
	// Pods is how many pods there are to move, Unmovable one that a person must decide about, "" if there is none, and Exclusive one that
	// holds a volume which only one node at a time may mount.
	Pods                 int
	Unmovable, Exclusive string
	Record               Record
}

// Step is what to do about a node. The zero value is nothing.
type Step struct {
	Node string
	// Suspect, Trust: set and take our taint that keeps pods off.
	Suspect, Trust bool
	// Declare, Return: set and take the taint that calls it out of service.
	Declare, Return bool
	// Record, if not nil, is the new record.
	Record *Record
	// Why says what the step follows from.
	Why string
	// Held says why the node is not declared dead though it may be.
	Held string
}

// note has the record written if it has changed.
func (s *Step) note(before, after Record) {
	if !after.Equal(before) {
		s.Record = &after
	}
}

// Changes reports whether the node is to be changed.
func (s Step) Changes() bool {
	return s.Suspect || s.Trust || s.Declare || s.Return || s.Record != nil
}

// Decide says what to do about the nodes of a pool, all of them, and when to look again, 0 for not before something
// changes.
func Decide(nodes []Node, settings Settings, now time.Time) (steps []Step, again time.Duration) {
	held := tooMany(nodes, settings)
	for _, node := range nodes {
		step, later := decideNode(node, settings, held, now)
		if step.Changes() || step.Held != "" {
			steps = append(steps, step)
		}
		if later > 0 && (again == 0 || later < again) {
			again = later
		}
	}
	return steps, again
}

// tooMany says why no more nodes of a pool are called dead, "" when they may be. Nodes that are only about to be dead count:
// when all fall silent at once, they are not all found so in the same moment. Those that a person has closed do not, as that
// person knows.
func tooMany(nodes []Node, settings Settings) string {
	dead := 0
	for _, node := range nodes {
		if !node.Closed && !node.OutOfServiceByOthers && (node.OutOfService || node.Silence >= missed || presumedOff(node, settings) != "") {
			dead++
		}
	}
	allowed := max(1, len(nodes)*settings.Budget/100)
	if dead <= allowed {
		return ""
	}
	return fmt.Sprintf("%d of the %d nodes of the pool seem dead at once, and no more than %d may be taken for it", dead, len(nodes), allowed)
}

// certainlyOff says by whose word a machine is off, "" if by nobody's.
func certainlyOff(node Node, settings Settings) string {
	switch {
	case node.Ready == corev1.ConditionTrue:
		return ""
	case node.ShutDown:
		return "its cloud says that the machine is shut down"
	case node.Ready == corev1.ConditionUnknown && settings.OutOfServiceAfter > 0 && node.Silence >= settings.OutOfServiceAfter:
		return fmt.Sprintf("it has given no sign of life for %s", settings.OutOfServiceAfter)
	}
	return ""
}

// presumedOff says why a machine is taken for dead, by somebody's word or by its silence alone, "" if it is not.
func presumedOff(node Node, settings Settings) string {
	if word := certainlyOff(node, settings); word != "" {
		return word
	}
	if node.Ready == corev1.ConditionUnknown && settings.SilentAfter > 0 && node.Silence >= settings.SilentAfter {
		return fmt.Sprintf("it has given no sign of life for %s", settings.SilentAfter)
	}
	return ""
}

func decideNode(node Node, settings Settings, held string, now time.Time) (Step, time.Duration) {
	if node.Ready == corev1.ConditionTrue {
		return decideReady(node, settings, now)
	}
	step := Step{Node: node.Name}
	record := node.Record
	record.Until, record.Held = time.Time{}, nil
	if hasFailed(node) {
		record = failedAgain(record, node.Since, "", settings.Forget)
		step.Suspect, step.Why = !node.Suspect, "it is not ready"
	}
	again := time.Duration(0)
	word := presumedOff(node, settings)
	switch {
	case node.OutOfService || node.OutOfServiceByOthers || node.Pods == 0:
	case word == "":
		again = untilSilent(node, settings)
	case held != "":
		record.Held = &nodestate.Held{Reason: nodestate.HeldByBudget}
		step.Held, again = held, heldAgain
	case node.Unmovable != "":
		record.Held = &nodestate.Held{Reason: nodestate.HeldByPod, Pod: node.Unmovable}
		step.Held = fmt.Sprintf("pod %s is not to be moved without a person", node.Unmovable)
	case node.Exclusive != "" && certainlyOff(node, settings) == "":
		record.Held = &nodestate.Held{Reason: nodestate.HeldByStorage, Pod: node.Exclusive}
		step.Held = fmt.Sprintf("pod %s holds a volume for one node at a time, and nothing proves that the machine is off", node.Exclusive)
		again = untilSilent(node, settings)
	default:
		step.Declare, step.Why = true, word
	}
	step.note(node.Record, record)
	return step, again
}

// hasFailed reports whether a node that is not ready failed since its record was written. One that starts has not.
func hasFailed(node Node) bool {
	return !node.Since.Equal(node.Record.Last) && node.Since.Sub(node.Created) > startUp
}

// untilSilent is how long until a node that is silent is taken for dead, or is certainly off; 0 if its silence will never say more.
func untilSilent(node Node, settings Settings) time.Duration {
	if node.Ready != corev1.ConditionUnknown {
		return 0
	}
	var out time.Duration
	for _, after := range []time.Duration{settings.SilentAfter, settings.OutOfServiceAfter} {
		if after <= node.Silence {
			continue // 0, or over
		}
		if left := max(after-node.Silence, time.Millisecond); out == 0 || left < out {
			out = left
		}
	}
	return out
}

// decideReady gives a node back when it has been well for long enough.
func decideReady(node Node, settings Settings, now time.Time) (Step, time.Duration) {
	step := Step{Node: node.Name, Return: node.OutOfService}
	if step.Return {
		step.Why = "it is ready again"
	}
	record := node.Record
	record.Until, record.Held = time.Time{}, nil
	if node.Bad != "" {
		decideBad(&step, &record, node, settings)
		step.note(node.Record, record)
		return step, 0
	}
	if !node.Suspect {
		step.note(node.Record, record)
		return step, 0
	}
	since := node.Since
	if node.WellSince.After(since) {
		since = node.WellSince
	}
	well := since.Add(backOff(node.Record, settings.BackOff, settings.MaxBackOff))
	left := well.Sub(now)
	if left > 0 {
		record.Until = well
	} else {
		step.Trust, step.Why = true, fmt.Sprintf("it has been well for %s", now.Sub(since).Round(time.Second))
	}
	step.note(node.Record, record)
	return step, max(0, left)
}

// decideBad closes a node that is ready, and has something that is not to be: once each time.
func decideBad(step *Step, record *Record, node Node, settings Settings) {
	if node.BadSince.Equal(node.Record.Last) {
		return
	}
	*record = failedAgain(*record, node.BadSince, node.Bad, settings.Forget)
	step.Suspect, step.Why = !node.Suspect, fmt.Sprintf("its condition %s is true", node.Bad)
}

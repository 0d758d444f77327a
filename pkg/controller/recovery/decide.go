package recovery

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// Settings are set by an administrator.
type Settings struct {
	// OutOfServiceAfter is how long after its last sign of life a machine is certainly off; 0 means that silence proves nothing.
	OutOfServiceAfter time.Duration
	// SilentAfter is how long after its last sign of life a machine is presumed dead without proof, unless one of its pods holds a single-node
	// volume; 0 means never.
	SilentAfter time.Duration
	// Budget is the percentage of a pool's nodes that we may have out of service at once. One node is always allowed.
	Budget int
	// BackOff is how long a node must be ready after its first failure before it gets new pods, MaxBackOff the limit after many.
	BackOff, MaxBackOff time.Duration
	// Forget is how long a failure counts.
	Forget time.Duration
	// Conditions are types of node conditions that make a node suspect while they are true, such as those of node-problem-detector.
	Conditions []string
}

// startUp is how long after its creation a node registers. A node that has not been ready since then is starting and has not failed.
const startUp = 10 * time.Second

const (
	// missed is the silence of a kubelet that has missed two renewals of its lease, which are 10 s apart.
	missed = 25 * time.Second
	// heldAgain is the requeue interval of a node that is not declared dead because others are silent, too: when one of them recovers, only its lease
	// may change.
	heldAgain = 5 * time.Second
)

// Node is the input of a decision about a node.
type Node struct {
	Name    string
	Created time.Time
	// Ready is the status of the Ready condition, and Since its last change.
	Ready corev1.ConditionStatus
	Since time.Time
	// Bad is one of [Settings.Conditions] that is true, "" for none, and BadSince when it became true. WellSince is when the last of them became
	// false.
	Bad                 string
	BadSince, WellSince time.Time
	// Silence is how long it has certainly given no sign of life: 0 if unknown.
	Silence time.Duration
	// Closed says that the node is cordoned.
	Closed bool
	// ShutDown says that its cloud reports the machine as off.
	ShutDown bool
	// Suspect and OutOfService say that the node has our taints; OutOfServiceByOthers that another party has set the taint.
	Suspect, OutOfService, OutOfServiceByOthers bool
	// Pods counts the pods to move. Unmovable is a pod that requires an administrator's decision, "" for none. Exclusive is a pod with a volume that
	// only one node at a time may mount.
	Pods                 int
	Unmovable, Exclusive string
	Record               Record
}

// Step is the action for a node. The zero value is none.
type Step struct {
	Node string
	// Suspect and Trust set and remove our taint that keeps pods off.
	Suspect, Trust bool
	// Declare and Return set and remove the out-of-service taint.
	Declare, Return bool
	// Record, if not nil, is the new record.
	Record *Record
	// Why is the cause of the step.
	Why string
	// Held is why the node is not declared dead although it may be.
	Held string
}

// recordChange sets the record if it has changed.
func (s *Step) recordChange(before, after Record) {
	if !after.Equal(before) {
		s.Record = &after
	}
}

// HasChanges reports whether the step changes the node.
func (s Step) HasChanges() bool {
	return s.Suspect || s.Trust || s.Declare || s.Return || s.Record != nil
}

// Decide returns the steps for all nodes of a pool, and when to reconcile again; 0 means not before a change.
func Decide(nodes []Node, settings Settings, now time.Time) (steps []Step, again time.Duration) {
	held := tooMany(nodes, settings)
	for _, node := range nodes {
		step, later := decideNode(node, settings, held, now)
		if step.HasChanges() || step.Held != "" {
			steps = append(steps, step)
		}
		if later > 0 && (again == 0 || later < again) {
			again = later
		}
	}
	return steps, again
}

// tooMany returns why no more nodes of a pool may be declared dead, "" if they may. Nodes that are about to be dead count: when all go silent at
// once, they are not all detected at the same moment. Cordoned nodes do not count, because an administrator knows about them.
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

// certainlyOff returns the proof that a machine is off, "" if there is none.
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

// presumedOff returns why a machine is presumed dead, by proof or by its silence alone, "" if it is not.
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
	step.recordChange(node.Record, record)
	return step, again
}

// hasFailed reports whether a node that is not ready has failed since its record was written. A starting node has not.
func hasFailed(node Node) bool {
	return !node.Since.Equal(node.Record.Last) && node.Since.Sub(node.Created) > startUp
}

// untilSilent returns how long until a silent node is presumed dead or certainly off; 0 if its silence will prove nothing more.
func untilSilent(node Node, settings Settings) time.Duration {
	if node.Ready != corev1.ConditionUnknown {
		return 0
	}
	var out time.Duration
	for _, after := range []time.Duration{settings.SilentAfter, settings.OutOfServiceAfter} {
		if after <= node.Silence {
			continue // off, or already past
		}
		if left := max(after-node.Silence, time.Millisecond); out == 0 || left < out {
			out = left
		}
	}
	return out
}

// decideReady returns a node to service when it has been healthy long enough.
func decideReady(node Node, settings Settings, now time.Time) (Step, time.Duration) {
	step := Step{Node: node.Name, Return: node.OutOfService}
	if step.Return {
		step.Why = "it is ready again"
	}
	record := node.Record
	record.Until, record.Held = time.Time{}, nil
	if node.Bad != "" {
		decideBad(&step, &record, node, settings)
		step.recordChange(node.Record, record)
		return step, 0
	}
	if !node.Suspect {
		step.recordChange(node.Record, record)
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
	step.recordChange(node.Record, record)
	return step, max(0, left)
}

// decideBad marks a ready node with a bad condition as suspect, once per occurrence.
func decideBad(step *Step, record *Record, node Node, settings Settings) {
	if node.BadSince.Equal(node.Record.Last) {
		return
	}
	*record = failedAgain(*record, node.BadSince, node.Bad, settings.Forget)
	step.Suspect, step.Why = !node.Suspect, fmt.Sprintf("its condition %s is true", node.Bad)
}

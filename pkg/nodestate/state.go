package nodestate

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Code is a controller's assessment of a node. The set is closed.
type Code string

const (
	// Suspect: the node gets no new pods until it has been healthy for a while.
	Suspect Code = "Suspect"
	// NotAdmitted: it gets none because it breaks a constraint of its pool.
	NotAdmitted Code = "NotAdmitted"
	// OutOfService: it is declared dead. Its pods are ended, and run elsewhere.
	OutOfService Code = "OutOfService"
	// NotTakenForDead: it may be dead, and there is a reason against ending its pods.
	NotTakenForDead Code = "NotTakenForDead"
	// Moving: it gets none while a pod is moved from it.
	Moving Code = "Moving"
	// Leaving: it gets none because its machine is leaving.
	Leaving Code = "Leaving"
	// Joining: it gets none until its machine has started and it has the labels of its pool.
	Joining Code = "Joining"
)

// State is one assessment of a node.
type State struct {
	Code Code `json:"code" enum:"Suspect,NotAdmitted,OutOfService,NotTakenForDead,Moving,Leaving,Joining"`
	// Reason is NotReady or Condition for a suspect node; Budget, NoMigration or Storage for one that is not declared dead; and Controller or Other,
	// the author of the taint, for one that is out of service.
	Reason string `json:"reason,omitempty"`
	// Condition is the node condition that made it suspect.
	Condition string `json:"condition,omitempty"`
	// Failures counts the recent failures of the node.
	Failures int `json:"failures,omitempty"`
	// Pod is the pod, as namespace/name, that must not be moved.
	Pod string `json:"pod,omitempty"`
	// Violations are the broken constraints, if they may be read.
	Violations []Violation `json:"violations,omitempty"`
	// Since is when it began, and Until when it ends without further events; nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Text is a short description without the times.
	Text string `json:"text"`
}

// ClosesNode reports whether the scheduler gives such a node no new pods, whatever they tolerate.
func (s State) ClosesNode() bool { return s.Code != NotTakenForDead && s.Code != Moving }

// IsClosed reports whether our controllers keep all new pods off a node. No pod may tolerate its taints (manifests/policy).
func IsClosed(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if isClosing(&node.Spec.Taints[i]) {
			return true
		}
	}
	return false
}

// IsJoining reports whether a node's machine is joining its pool.
func IsJoining(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == g8s.TaintJoining })
}

func isClosing(taint *corev1.Taint) bool {
	switch taint.Key {
	case g8s.TaintSuspect, g8s.TaintNotAdmitted, g8s.TaintLeaving, g8s.TaintJoining, corev1.TaintNodeOutOfService:
		return true
	}
	return false
}

// StatesOf returns the states of a node. broken are the constraints of its pool that it breaks, as far as known.
func StatesOf(node *corev1.Node, broken []Violation) []State {
	record, err := ReadRecord(node)
	if err != nil {
		record = Record{} // the node's taints still show most of the state
	}
	var out []State
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		switch taint.Key {
		case g8s.TaintSuspect:
			out = append(out, suspectState(taint, record))
		case g8s.TaintNotAdmitted:
			out = append(out, notAdmittedState(broken))
		case corev1.TaintNodeOutOfService:
			out = append(out, outOfServiceState(taint))
		case g8s.TaintMoving:
			out = append(out, movingState(taint))
		case g8s.TaintLeaving:
			out = append(out, State{Code: Leaving, Reason: taint.Value})
		case g8s.TaintJoining:
			out = append(out, State{Code: Joining})
		}
	}
	if record.Held != nil {
		out = append(out, heldState(record))
	}
	for i := range out {
		out[i].Text = out[i].Says().String()
	}
	return out
}

// reasonCondition is the reason of a suspect node with a bad condition.
const reasonCondition = "Condition"

// Says is a short description in every language, without the times.
func (s *State) Says() phrase.Text {
	switch s.Code {
	case Suspect:
		return s.suspectMessage()
	case NotAdmitted:
		if len(s.Violations) > 0 {
			return phrase.Textf("not admitted by its pool: %s", ViolationsMessage(s.Violations))
		}
		return phrase.Textf("not admitted: it breaks a constraint of its pool")
	case OutOfService:
		return phrase.Textf("out of service: its pods are ended, and their jobs run elsewhere")
	case Moving:
		return phrase.Textf("a pod is being moved from it")
	case Leaving:
		return phrase.Textf("leaving: its machine is to go (%s)", s.Reason)
	case Joining:
		return phrase.Textf("starting: it has not joined its pool yet")
	case NotTakenForDead:
		switch s.Reason {
		case string(HeldByPod):
			return phrase.Textf("not taken for dead: pod %s is not to be moved without a person", s.Pod)
		case string(HeldByStorage):
			return phrase.Textf("not taken for dead: pod %s holds a volume for one node at a time, and nothing proves that the machine is off", s.Pod)
		}
		return phrase.Textf("not taken for dead: more nodes of the pool are silent at once than the budget allows")
	}
	return phrase.Quote(s.Text)
}

func (s *State) suspectMessage() phrase.Text {
	out := phrase.Textf("suspect: it was not ready")
	switch {
	case s.Reason == reasonCondition && s.Condition != "":
		out = phrase.Textf("suspect: its condition %s was true", s.Condition)
	case s.Reason == reasonCondition:
		out = phrase.Textf("suspect: a condition is true that must not be")
	}
	if s.Failures > 1 {
		out = out.Addf(", failure %d", s.Failures)
	}
	return out
}

func suspectState(taint *corev1.Taint, record Record) State {
	out := State{Code: Suspect, Reason: "NotReady", Failures: record.Failures, Since: timePointer(record.Last), Until: timePointer(record.Until)}
	if taint.Value == g8s.SuspectCondition {
		out.Reason, out.Condition = reasonCondition, record.Condition
	}
	return out
}

func notAdmittedState(broken []Violation) State {
	return State{Code: NotAdmitted, Violations: broken}
}

func outOfServiceState(taint *corev1.Taint) State {
	out := State{Code: OutOfService, Reason: "Other"}
	if taint.Value == g8s.OutOfServiceByController {
		out.Reason = "Controller"
	}
	if taint.TimeAdded != nil {
		out.Since = timePointer(taint.TimeAdded.Time)
	}
	return out
}

func movingState(taint *corev1.Taint) State {
	out := State{Code: Moving}
	if seconds, err := strconv.ParseInt(taint.Value, 10, 64); err == nil {
		out.Until = timePointer(time.Unix(seconds, 0).UTC())
	}
	return out
}

func heldState(record Record) State {
	return State{Code: NotTakenForDead, Reason: string(record.Held.Reason), Pod: record.Held.Pod, Since: timePointer(record.Last)}
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

package drain

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Recovered is the result of returning a node to service.
type Recovered struct {
	Node string `json:"node"`
	// Uncordoned and Trusted say that its cordon and the suspect taint were removed.
	Uncordoned bool `json:"uncordoned"`
	Trusted    bool `json:"trusted"`
	// Remains are the reasons that still keep pods off, each a sentence.
	Remains []string `json:"remains,omitempty"`
	// RemainTexts are the same in every language.
	RemainTexts []phrase.Text `json:"-"`
}

// addRemaining adds a reason that still keeps pods off.
func (r *Recovered) addRemaining(text phrase.Text) {
	r.Remains, r.RemainTexts = append(r.Remains, text.String()), append(r.RemainTexts, text)
}

// NotWellError is the reason why a node is not returned to service.
type NotWellError struct {
	Node string
	// Condition is the condition of the node that is not as it must be, and Message what it says.
	Condition, ConditionMessage string
	// Ready says that the node is ready and has another problem: an administrator may decide otherwise.
	Ready bool
}

func (e *NotWellError) Error() string { return e.Message().String() }

// Message is the error in every language, with what the node says as it is.
func (e *NotWellError) Message() phrase.Text {
	out := phrase.Textf("node %s is not given back, nothing was done: it is not ready", e.Node)
	if e.Ready {
		out = phrase.Textf("node %s is not given back, nothing was done: its condition %s is still true", e.Node, e.Condition)
	}
	if e.ConditionMessage != "" {
		out = out.Addf(" (%s)", e.ConditionMessage)
	}
	return out
}

// PlanRecovery returns what must be removed from a node to return it to service, or why it is not healthy. force trusts a ready node although the
// condition that made it suspect is still true.
func PlanRecovery(node *corev1.Node, force bool) (Recovered, error) {
	if !fit.IsReady(node) {
		return Recovered{}, &NotWellError{Node: node.Name, Condition: string(corev1.NodeReady), ConditionMessage: messageOf(node, string(corev1.NodeReady), corev1.ConditionTrue, false)}
	}
	out := Recovered{Node: node.Name, Uncordoned: node.Spec.Unschedulable, Trusted: slices.ContainsFunc(node.Spec.Taints, isSuspect)}
	if record, err := nodestate.ReadRecord(node); err == nil && record.Condition != "" && out.Trusted && !force {
		if condition.IsNodeTrue(node, corev1.NodeConditionType(record.Condition)) {
			return Recovered{}, &NotWellError{
				Node: node.Name, Condition: record.Condition, ConditionMessage: messageOf(node, record.Condition, corev1.ConditionTrue, true), Ready: true,
			}
		}
	}
	for _, state := range nodestate.StatesOf(node, nil) {
		switch state.Code {
		case nodestate.NotAdmitted:
			out.addRemaining(phrase.Textf("it breaks a constraint of its pool, and gets no pods until it does not: gpuctl describe node %s", node.Name))
		case nodestate.OutOfService:
			out.addRemaining(phrase.Textf("it is called out of service: who has set that takes it away with kubectl taint node %s %s-",
				node.Name, corev1.TaintNodeOutOfService))
		}
	}
	return out, nil
}

// HasChanges reports whether anything must be removed.
func (r Recovered) HasChanges() bool { return r.Uncordoned || r.Trusted }

// mergePatch returns a merge patch that returns the node to service. It fails if the node has changed since it was read.
func (r Recovered) mergePatch(node *corev1.Node) ([]byte, error) {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return isSuspect(t) || t.Key == corev1.TaintNodeUnschedulable
	})
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"unschedulable": nil, "taints": taints},
	})
}

func isSuspect(t corev1.Taint) bool { return t.Key == names.TaintSuspect }

// messageOf returns the message of a condition that has a status, or has another one, depending on has.
func messageOf(node *corev1.Node, condition string, status corev1.ConditionStatus, has bool) string {
	for _, c := range node.Status.Conditions {
		if string(c.Type) == condition && (c.Status == status) == has {
			return c.Message
		}
	}
	return ""
}

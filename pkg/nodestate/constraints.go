package nodestate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Offer is the properties of a node that constraints apply to.
type Offer struct {
	GPUType, Region, Zone string
	// GPUs is how many whole GPUs the node offers to pods, and GPUMemory the memory of each, nil if unknown.
	GPUs      int64
	GPUMemory *resource.Quantity
	// CPU and Memory are what it offers to pods.
	CPU, Memory resource.Quantity
}

// Violation is a constraint of a pool that a node breaks.
type Violation struct {
	// Constraint is the field of the GPUPool's constraints, such as minNode.gpus.
	Constraint string `json:"constraint"`
	// Has is the node's value, "" if unknown, and Wants the required one.
	Has   string `json:"has,omitempty"`
	Wants string `json:"wants"`
	// Text is a short description.
	Text string `json:"text"`
}

// BrokenConstraints returns the constraints of its pool that a node breaks.
func BrokenConstraints(constraints g8s.PoolConstraints, node Offer) []Violation {
	out := slices.Concat(
		oneOf("gpuTypes", "gpu-type", node.GPUType, constraints.GPUTypes),
		oneOf("regions", "region", node.Region, constraints.Regions),
		oneOf("zones", "zone", node.Zone, constraints.Zones),
	)
	least := constraints.MinNode
	if least.GPUs != nil && node.GPUs < int64(*least.GPUs) {
		out = append(out, Violation{Constraint: "minNode.gpus", Has: fmt.Sprint(node.GPUs), Wants: fmt.Sprint(*least.GPUs),
			Text: fmt.Sprintf("it offers %d GPUs, and must offer %d", node.GPUs, *least.GPUs)})
	}
	out = append(out, atLeast("minNode.cpu", "CPU", &node.CPU, least.CPU)...)
	out = append(out, atLeast("minNode.memory", "memory", &node.Memory, least.Memory)...)
	switch {
	case least.GPUMemory != nil && node.GPUMemory == nil:
		out = append(out, Violation{Constraint: "minNode.gpuMemory", Wants: least.GPUMemory.String(),
			Text: fmt.Sprintf("nothing says the memory of its GPUs, which must be %s", least.GPUMemory)})
	case least.GPUMemory != nil:
		out = append(out, atLeast("minNode.gpuMemory", "memory on each GPU", node.GPUMemory, least.GPUMemory)...)
	}
	return out
}

func oneOf(constraint, what, got string, allowed []string) []Violation {
	if len(allowed) == 0 || slices.Contains(allowed, got) {
		return nil
	}
	out := Violation{Constraint: constraint, Has: got, Wants: strings.Join(allowed, ", ")}
	out.Text = fmt.Sprintf("its %s is %s, and must be one of %s", what, got, out.Wants)
	if got == "" {
		out.Text = fmt.Sprintf("nothing says its %s, which must be one of %s", what, out.Wants)
	}
	return []Violation{out}
}

func atLeast(constraint, what string, got, want *resource.Quantity) []Violation {
	if want == nil || got.Cmp(*want) >= 0 {
		return nil
	}
	return []Violation{{Constraint: constraint, Has: got.String(), Wants: want.String(),
		Text: fmt.Sprintf("it has %s of %s, and must have %s", got, what, want)}}
}

// Says is the violation in every language.
func (v *Violation) Says() phrase.Text { return phrase.FromEnglish(v.Text) }

// ViolationsMessage joins the messages of violations, in every language.
func ViolationsMessage(violations []Violation) phrase.Text {
	out := make([]phrase.Text, len(violations))
	for i := range violations {
		out[i] = violations[i].Says()
	}
	return phrase.Join(out, phrase.Textf(", "))
}

// ViolationTexts joins the texts of violations.
func ViolationTexts(violations []Violation) string {
	out := make([]string, len(violations))
	for i, violation := range violations {
		out[i] = violation.Text
	}
	return strings.Join(out, ", ")
}

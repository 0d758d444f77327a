package diagnosis

import "g8s.host/gpu-scheduler/pkg/reason"

// Step is one thing to do about a finding. The steps of a finding are alternatives, the best first; one that has Then
// set belongs to the one before it. Text says all that the other fields do.
type Step struct {
	Action reason.Action `json:"action"`
	// Field is the field of the job's YAML that Value belongs into, or what else of an object the step is about.
	Field string `json:"field,omitempty"`
	// Value is what to set, "" where only the user knows it.
	Value string `json:"value,omitempty"`
	// Kind and Name are of the object that the step is about.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Command is a command line that carries the step out, or shows what there is to know.
	Command string `json:"command,omitempty"`
	// Holders are who would have to end for a [Wait] to be over; empty where it is over by itself.
	Holders []Holder `json:"holders,omitempty"`
	// Then says that the step follows the one before it.
	Then bool `json:"then,omitempty"`
	// Text is the step in words.
	Text string `json:"text"`
}

// advice puts the steps of a finding in words.
func advice(steps []Step) []string {
	out := make([]string, len(steps))
	for i, step := range steps {
		switch {
		case i == 0 || step.Then || step.Action == reason.Inspect:
			out[i] = step.Text
		default:
			out[i] = "or " + step.Text
		}
	}
	return out
}

// waiting is a step that time takes.
func waiting(text string) Step { return Step{Action: reason.Wait, Text: text} }

// inspecting is a look that the user has to take.
func inspecting(text, command string) Step {
	return Step{Action: reason.Inspect, Command: command, Text: text + ": " + command}
}

package diagnosis

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

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
	// Text is the step in words, and Says what it is made of.
	Text string      `json:"text"`
	Says phrase.Text `json:"-"`
}

// Worded is a finding with its text and its advice in words, and for programs.
func (f Finding) Worded() Finding {
	if len(f.Says) > 0 {
		f.Text, f.Parts = f.Says.String(), f.Says.Parts()
	}
	f.Steps = slices.Clone(f.Steps)
	for i := range f.Steps {
		if says := f.Steps[i].Says; len(says) > 0 {
			f.Steps[i].Text = says.String()
		}
	}
	f.Advice = f.AdviceIn(phrase.English)
	return f
}

// TextIn is the sentence in a language.
func (f Finding) TextIn(language phrase.Language) string {
	if len(f.Says) == 0 { // it was read, and is as it was written
		return f.Text
	}
	return f.Says.In(language)
}

// AdviceIn puts the steps in words.
func (f Finding) AdviceIn(language phrase.Language) []string {
	if len(f.Steps) == 0 {
		return f.Advice
	}
	out := make([]string, len(f.Steps))
	for i, step := range f.Steps {
		says := step.Says
		if len(says) == 0 {
			says = phrase.Quote(step.Text)
		}
		if i > 0 && !step.Then && step.Action != reason.Inspect {
			says = phrase.Of("or %s", says)
		}
		out[i] = says.In(language)
	}
	return out
}

// waiting is a step that time takes.
func waiting(format string, args ...any) Step {
	return Step{Action: reason.Wait, Says: phrase.Of(format, args...)}
}

// inspecting is a look that the user has to take.
func inspecting(what phrase.Text, command string) Step {
	return Step{Action: reason.Inspect, Command: command, Says: what.And(": %s", command)}
}

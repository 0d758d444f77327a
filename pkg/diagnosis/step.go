package diagnosis

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Step is one remedy for a finding. The steps of a finding are alternatives, the best first. Text covers all other fields.
type Step struct {
	Action reason.Action `json:"action"`
	// Field is the field of the job's YAML for Value, or another part of the object of the step.
	Field string `json:"field,omitempty"`
	// Value is what to set, "" where only the user knows it.
	Value string `json:"value,omitempty"`
	// Kind and Name identify the object of the step.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Command is a command line that performs the step, or shows the relevant information.
	Command string `json:"command,omitempty"`
	// Holders must end before a [Wait] is over; empty if it ends without that.
	Holders []Holder `json:"holders,omitempty"`
	// Denied is the right that the user lacks for the step, such as "patch jobs"; "" if none is known to be missing.
	Denied string `json:"denied,omitempty"`
	// Text is the step as a sentence, and Says its source.
	Text    string      `json:"text"`
	Message phrase.Text `json:"-"`
}

// WithText returns a finding with the text of its message and its steps, for people and for programs.
func (f Finding) WithText() Finding {
	if len(f.Message) > 0 {
		f.Text, f.Parts = f.Message.String(), f.Message.TemplateParts()
	}
	f.Steps = slices.Clone(f.Steps)
	for i := range f.Steps {
		if says := f.Steps[i].Message; len(says) > 0 {
			f.Steps[i].Text = says.String()
		}
	}
	f.Advice = f.AdviceIn(phrase.English)
	return f
}

// TextIn is the sentence in a language.
func (f Finding) TextIn(language phrase.Language) string {
	if len(f.Message) == 0 { // it was decoded, and is unchanged
		return f.Text
	}
	return f.Message.Localize(language)
}

// AdviceIn puts the steps in words.
func (f Finding) AdviceIn(language phrase.Language) []string {
	if len(f.Steps) == 0 {
		return f.Advice
	}
	out := make([]string, len(f.Steps))
	for i, step := range f.Steps {
		says := step.Message
		if len(says) == 0 {
			says = phrase.Quote(step.Text)
		}
		if i > 0 && step.Action != reason.Inspect {
			says = phrase.Textf("or %s", says)
		}
		out[i] = says.Localize(language)
	}
	return out
}

// LocalizeText returns the report with the sentences of its findings in a language. Codes and commands stay.
func (r Report) LocalizeText(language phrase.Language) Report {
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text, f.Advice, f.Steps = f.TextIn(language), f.AdviceIn(language), slices.Clone(f.Steps)
		for j := range f.Steps {
			if says := f.Steps[j].Message; len(says) > 0 {
				f.Steps[j].Text = says.Localize(language)
			}
		}
	}
	return r
}

// waitStep is a step that time takes.
func waitStep(format string, args ...any) Step {
	return Step{Action: reason.Wait, Message: phrase.Textf(format, args...)}
}

// inspectStep is a step in which the user has to look at something.
func inspectStep(what phrase.Text, command string) Step {
	return Step{Action: reason.Inspect, Command: command, Message: what.Addf(": %s", command)}
}

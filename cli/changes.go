package cli

import (
	"fmt"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// change is the outcome for one object, for programs.
type change struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace,omitempty"`
	Action    submit.Action `json:"action"`
	// Digest identifies an object that was (or would be) created from content that others may have written. Object is that object.
	Digest string         `json:"digest,omitempty"`
	Object map[string]any `json:"object,omitempty"`
	// text is shown to people instead of the action; if empty, the action itself is shown.
	text phrase.Text
}

// actionText describes an action in one word for people.
func actionText(action submit.Action) phrase.Text {
	switch action {
	case submit.ActionCreated:
		return phrase.Textf("created")
	case submit.ActionDeleted:
		return phrase.Textf("deleted")
	case submit.ActionConfigured:
		return phrase.Textf("configured")
	case submit.ActionReplaced:
		return phrase.Textf("replaced")
	case submit.ActionUnchanged:
		return phrase.Textf("unchanged")
	case submit.ActionPaused:
		return phrase.Textf("paused")
	case submit.ActionResumed:
		return phrase.Textf("resumed")
	case submit.ActionCancelled:
		return phrase.Textf("cancelled")
	case submit.ActionRetried:
		return phrase.Textf("started over")
	}
	return phrase.Quote(string(action))
}

// doneText returns the line for what was done, or would be done, to an object.
func doneText(name string, text phrase.Text, dryRun string) phrase.Text {
	out := phrase.Textf("%s %s", name, text)
	switch dryRun {
	case dryRunClient:
		return out.Addf(" (client dry run)")
	case dryRunServer:
		return out.Addf(" (server dry run)")
	}
	return out
}

func newChange(result submit.Result) change {
	out := change{Kind: result.Ref.Kind, Name: result.Ref.Name, Namespace: result.Ref.Namespace, Action: result.Action}
	if made := result.Replacement; made != nil {
		out.Digest, out.Object = made.Digest, made.Object
	}
	return out
}

// changes prints the outcome of each object: one line each as soon as it is known, or all of them at the end.
type changes struct {
	io     IOStreams
	output *output
	dryRun string
	all    []change
}

// newChangeOutput is the flag -o of commands that print changes.
func newChangeOutput() *output { return newOutput("", outputName, outputJSON, outputYAML) }

func (p *changes) recordChange(o change) {
	p.all = append(p.all, o)
	name := o.Kind + "/" + o.Name
	switch p.output.format {
	case outputName:
		fmt.Fprintln(p.io.Out, name)
	case "":
		text := o.text
		if len(text) == 0 {
			text = actionText(o.Action)
		}
		fmt.Fprintln(p.io.Out, doneText(name, text, p.dryRun).Localize(p.io.outputLanguage()))
	}
}

func (p *changes) printChanges() error {
	if p.output.format != outputJSON && p.output.format != outputYAML {
		return nil
	}
	return writeEncoded(p.io.Out, p.output.format, list[change]{Items: append([]change{}, p.all...)})
}

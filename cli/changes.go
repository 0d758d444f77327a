package cli

import (
	"fmt"

	"g8s.host/gpu-scheduler/pkg/submit"
)

// change is what became of one thing, for programs.
type change struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace,omitempty"`
	Action    submit.Action `json:"action"`
	// text is what people read instead of the action, "" for the action itself.
	text string
}

func changeOf(result submit.Result) change {
	return change{Kind: result.Ref.Kind, Name: result.Ref.Name, Namespace: result.Ref.Namespace, Action: result.Action}
}

// changes prints what became of things: a line for each as soon as it is known, or all of them at the end.
type changes struct {
	io     IOStreams
	output *output
	dryRun string
	all    []change
}

// changeOutput is the flag -o of commands that print changes.
func changeOutput() *output { return newOutput("", outputName, outputJSON, outputYAML) }

func (p *changes) add(o change) {
	p.all = append(p.all, o)
	name := o.Kind + "/" + o.Name
	switch p.output.format {
	case outputName:
		fmt.Fprintln(p.io.Out, name)
	case "":
		text := o.text
		if text == "" {
			text = string(o.Action)
		}
		if p.dryRun != dryRunNone && p.dryRun != "" {
			text += " (" + p.dryRun + " dry run)"
		}
		fmt.Fprintln(p.io.Out, name+" "+text)
	}
}

func (p *changes) flush() error {
	if p.output.format != outputJSON && p.output.format != outputYAML {
		return nil
	}
	return encode(p.io.Out, p.output.format, list[change]{Items: append([]change{}, p.all...)})
}

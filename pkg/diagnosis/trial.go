package diagnosis

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Trial is what became of a step that was tried without changing anything. The zero value is a step that is taken, or that could not be tried.
type Trial struct {
	// Refused is why the step fails for every user, such as a policy or the state of the job; empty if nothing refuses it.
	Refused phrase.Text
	// Denied is the right that the user lacks for it, such as "patch jobs"; "" if none is missing.
	Denied string
}

// TrySteps leaves out the steps that would be refused, and names the right that the user lacks for others.
func (r Report) TrySteps(try func(*Step) Trial) Report {
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		r.Findings[i] = r.Findings[i].trySteps(r.Namespace, try).WithText()
	}
	return r
}

func (f Finding) trySteps(namespace string, try func(*Step) Trial) Finding {
	var kept []Step
	var refused phrase.Text
	for _, step := range f.Steps {
		trial := try(&step)
		if len(trial.Refused) > 0 {
			refused = trial.Refused
			continue
		}
		if step.Denied = trial.Denied; trial.Denied != "" {
			step.Message = step.Message.Addf("; you may not: ask for the right to %s in namespace %s, which the role edit has", trial.Denied, namespace)
		}
		kept = append(kept, step)
	}
	if len(kept) == 0 && len(refused) > 0 {
		kept = []Step{{Action: reason.AskAdministrators, Message: phrase.Textf("ask the administrators: what could be done about it is refused: %s", refused)}}
	}
	f.Steps = kept
	return f
}

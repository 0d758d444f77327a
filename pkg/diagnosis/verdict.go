package diagnosis

import (
	"cmp"
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// findings returns what a verdict contains of some reasons, those of the most nodes first.
func findings(verdict, namespace string, reasons []*reason.Reason) []Finding {
	var out []Finding
	for _, found := range reason.In(verdict, reasons) {
		out = append(out, Finding{
			Cause: found.Cause, Nodes: found.Nodes, Text: found.Fill(found.Says, namespace), Steps: stepsOf(found, namespace),
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out
}

func stepsOf(found reason.Found, namespace string) []Step {
	var out []Step
	for _, a := range found.Advice {
		out = append(out, Step{
			Action: a.Action, Field: a.Field, Value: a.Value, Kind: a.Kind,
			Name: found.Fill(a.Name, namespace), Command: found.Fill(a.Command, namespace), Text: found.Fill(a.Text, namespace),
		})
	}
	return out
}

// contains reports whether a verdict contains one of some reasons.
func contains(verdict string, reasons ...[]*reason.Reason) bool {
	return len(reason.In(verdict, slices.Concat(reasons...))) > 0
}

// rejected is what remains of a verdict that nothing explains.
func rejected(verdict string) Finding {
	return Finding{
		Cause: reason.RejectedByScheduler, Text: fmt.Sprintf("the scheduler says: %s", reason.Trim(verdict)),
		Steps: []Step{{Action: reason.AskAdministrators, Text: "change the job as the message says, or ask the administrators of the cluster"}},
	}
}

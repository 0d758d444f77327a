package diagnosis

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// findings returns the findings for the reasons in a verdict, those of the most nodes first.
func findings(verdict, namespace string, reasons []*reason.Reason) []Finding {
	var out []Finding
	for _, found := range reason.In(verdict, reasons) {
		out = append(out, Finding{
			Cause: found.Cause, Nodes: found.Nodes, Says: found.Fill(found.Says, namespace), Steps: stepsOf(found, namespace),
			Never: found.Never,
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out
}

func stepsOf(found reason.Found, namespace string) []Step {
	var out []Step
	for _, a := range found.Advice {
		out = append(out, Step{
			Action: a.Action, Field: found.Fill(a.Field, namespace).String(), Value: a.Value, Kind: a.Kind,
			Name: found.Fill(a.Name, namespace).String(), Command: found.Fill(a.Command, namespace).String(), Says: found.Fill(a.Text, namespace),
		})
	}
	return out
}

// contains reports whether a verdict contains one of some reasons.
func contains(verdict string, reasons ...[]*reason.Reason) bool {
	return len(reason.In(verdict, slices.Concat(reasons...))) > 0
}

// rejected quotes a verdict that no known reason explains.
func rejected(verdict string) Finding {
	return Finding{
		Cause: reason.RejectedByScheduler, Says: phrase.Of("the scheduler says: %s", reason.Trim(verdict)),
		Steps: []Step{{Action: reason.AskAdministrators, Says: phrase.Of("change the job as the message says, or ask the administrators of the cluster")}},
	}
}

// Beyond explains from the scheduler's verdict what blocks a pod and no node shows: its volumes, other pods, or the scheduler's own rules. It returns
// false for a verdict on what nodes themselves show, which may have changed since. A finding with a number of nodes is only about these, and others
// may take the pod.
func Beyond(verdict string) (Finding, bool) {
	if there, all, ok := reason.MissingMembers(verdict); ok && there < all {
		return Finding{Cause: reason.GangIncomplete, Says: phrase.Quote(inventory.Verdict(verdict))}.Worded(), true
	}
	known := slices.Concat(findings(verdict, "", reason.OfRefusals), findings(verdict, "", reason.OfPods), findings(verdict, "", reason.OfClaims), findings(verdict, "", reason.OfNodes))
	known = slices.DeleteFunc(known, func(f Finding) bool { return f.Cause == reason.GangWaiting }) // nodes show how much is free
	switch {
	case len(known) > 0:
		return known[0].Worded(), true
	case verdict == "" || contains(verdict, reason.OfPods, reason.OfGangs, reason.OfPlainNodes):
		return Finding{}, false
	}
	return rejected(verdict).Worded(), true
}

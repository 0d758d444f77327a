package diagnosis

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// verdictFindings returns the findings for the reasons in a verdict, those of the most nodes first.
func verdictFindings(verdict, namespace string, reasons []*reason.Reason) []Finding {
	var out []Finding
	for _, found := range reason.FindIn(verdict, reasons) {
		out = append(out, Finding{
			Cause: found.Cause, Nodes: found.Nodes, Message: found.FillText(found.Message, namespace), Steps: foundSteps(found, namespace),
			Never: found.Never,
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out
}

func foundSteps(found reason.Found, namespace string) []Step {
	var out []Step
	for _, a := range found.Advice {
		out = append(out, Step{
			Action: a.Action, Field: found.FillText(a.Field, namespace).String(), Value: a.Value, Kind: a.Kind,
			Name: found.FillText(a.Name, namespace).String(), Command: found.FillText(a.Command, namespace).String(), Message: found.FillText(a.Text, namespace),
		})
	}
	return out
}

// verdictContains reports whether a verdict contains one of some reasons.
func verdictContains(verdict string, reasons ...[]*reason.Reason) bool {
	return len(reason.FindIn(verdict, slices.Concat(reasons...))) > 0
}

// explainRejection quotes a verdict that no known reason explains.
func explainRejection(verdict string) Finding {
	return Finding{
		Cause: reason.RejectedByScheduler, Message: phrase.Textf("the scheduler says: %s", reason.TrimVerdict(verdict)),
		Steps: []Step{{Action: reason.AskAdministrators, Message: phrase.Textf("change the job as the message says, or ask the administrators of the cluster")}},
	}
}

// FindingBeyondNodes explains from the scheduler's verdict what blocks a pod and no node shows: its volumes, other pods, or the scheduler's own rules. It returns
// false for a verdict on what nodes themselves show, which may have changed since. A finding with a number of nodes is only about these, and others
// may take the pod.
func FindingBeyondNodes(verdict string) (Finding, bool) {
	if there, all, ok := reason.MissingMembers(verdict); ok && there < all {
		return Finding{Cause: reason.GangIncomplete, Message: phrase.Quote(inventory.ShortenVerdict(verdict))}.WithText(), true
	}
	known := slices.Concat(verdictFindings(verdict, "", reason.RefusalReasons), verdictFindings(verdict, "", reason.PodReasons), verdictFindings(verdict, "", reason.ClaimReasons), verdictFindings(verdict, "", reason.NodeReasons))
	known = slices.DeleteFunc(known, func(f Finding) bool { return f.Cause == reason.GangWaiting }) // nodes show how much is free
	switch {
	case len(known) > 0:
		return known[0].WithText(), true
	case verdict == "" || verdictContains(verdict, reason.PodReasons, reason.GangReasons, reason.PlainNodeReasons):
		return Finding{}, false
	}
	return explainRejection(verdict).WithText(), true
}

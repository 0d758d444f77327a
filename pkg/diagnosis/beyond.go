package diagnosis

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Beyond is what keeps a pod from starting by the scheduler's verdict, and no node shows: its volumes, other pods, or what
// the scheduler keeps to. It reports false for a verdict on what nodes themselves show, which may have changed since. A
// finding with a number of nodes is about these, and others may take the pod.
func Beyond(verdict string) (Finding, bool) {
	if there, all, ok := reason.MissingMembers(verdict); ok && there < all {
		return Finding{Cause: reason.GangIncomplete, Text: inventory.Verdict(verdict)}, true
	}
	known := slices.Concat(findings(verdict, "", reason.OfPods), findings(verdict, "", reason.OfClaims), findings(verdict, "", reason.OfNodes))
	known = slices.DeleteFunc(known, func(f Finding) bool { return f.Cause == reason.GangWaiting }) // nodes show how much is free
	switch {
	case len(known) > 0:
		return known[0], true
	case verdict == "" || contains(verdict, reason.OfPods, reason.OfGangs, reason.OfPlainNodes):
		return Finding{}, false
	}
	return rejected(verdict), true
}

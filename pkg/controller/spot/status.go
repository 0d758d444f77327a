package spot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// finishStatus completes the status and determines whether anything is left.
func (p *planner) finishStatus() {
	status := &p.plan.Status
	status.Machines = p.machines
	status.ObservedGeneration = p.facts.Pool.Generation
	status.Size, status.Joined = 0, 0
	for _, m := range p.liveMachines() {
		status.Size++
		if node := p.nodes[m.Name]; node != nil && node.Ready && m.JoinedAt != nil {
			status.Joined++
		}
	}
	status.Offers = slices.DeleteFunc(status.Offers, func(offer g8s.SpotOffer) bool { return !p.isOffered(offer) })
	status.ObservedSecrets = p.facts.Secrets
	for _, condition := range []metav1.Condition{p.readyCondition(), p.cloudCondition(), p.capacityCondition(), p.joinCondition()} {
		condition.ObservedGeneration, condition.LastTransitionTime = p.facts.Pool.Generation, p.decisionTime()
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	p.plan.Done = p.isDeleted() && p.facts.Answered && len(p.machines) == 0
}

// isOffered reports whether the spec still has a type in a zone.
func (p *planner) isOffered(offer g8s.SpotOffer) bool {
	return slices.Contains(p.spec.Template.InstanceTypes, offer.InstanceType) &&
		slices.ContainsFunc(p.spec.Template.Zones, func(zone g8s.MachineZone) bool { return zone.Name == offer.Zone })
}

func (p *planner) readyCondition() metav1.Condition {
	out := metav1.Condition{
		Type: g8s.ConditionReady, Status: metav1.ConditionTrue, Reason: "EnoughMachines",
		Message: fmt.Sprintf("%d machines are ready nodes, and %d must be", p.plan.Status.Joined, p.spec.Minimum),
	}
	switch {
	case p.isDeleted():
		out.Status, out.Reason = metav1.ConditionFalse, "Deleted"
		out.Message = fmt.Sprintf("it is deleted, and %d machines are to end", len(p.machines))
	case p.plan.Status.Joined < p.spec.Minimum:
		out.Status, out.Reason = metav1.ConditionFalse, "TooFewMachines"
		if starting := p.countStarting(); starting > 0 {
			out.Message += fmt.Sprintf("; %d are on their way", starting)
		}
		if p.plan.Status.Joining.Failures > 0 {
			out.Message += "; machines do not join"
		}
	}
	return out
}

func (p *planner) cloudCondition() metav1.Condition {
	out := metav1.Condition{
		Type: g8s.ConditionCloudAnswers, Status: metav1.ConditionTrue, Reason: "Answers", Message: "the cloud does what is asked of it",
	}
	switch {
	case p.facts.Waiting:
		if before := meta.FindStatusCondition(p.plan.Status.Conditions, g8s.ConditionCloudAnswers); before != nil {
			return *before
		}
	case !p.facts.Answered:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, reasonListFailed, "listing the machines: "+errorText(p.facts.Failure)
	case p.staleReason != "":
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, "MachinesUnknown", p.staleReason
	case p.facts.Unbuyable != nil:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, "CannotBuy", "buying machines: "+errorText(p.facts.Unbuyable)
	case p.plan.Status.Failures > 0:
		out.Status, out.Reason = metav1.ConditionFalse, "CallsFail"
		out.Message = fmt.Sprintf("%d calls in a row have failed: the events say why", p.plan.Status.Failures)
	}
	return out
}

func (p *planner) capacityCondition() metav1.Condition {
	if offers, _ := p.availableOffers(); len(offers) > 0 {
		return metav1.Condition{
			Type: g8s.ConditionCapacityAvailable, Status: metav1.ConditionTrue, Reason: "Offered",
			Message: "a type that is asked for can be tried in a zone",
		}
	}
	last := p.plan.Status.Offers[len(p.plan.Status.Offers)-1]
	return metav1.Condition{
		Type: g8s.ConditionCapacityAvailable, Status: metav1.ConditionFalse, Reason: "SoldOut",
		Message: fmt.Sprintf("no type is to be had in any zone; %s in %s: %s", last.InstanceType, last.Zone, last.Reason),
	}
}

// reasonListFailed is the reason of the condition CloudAnswers while the machines cannot be listed.
const reasonListFailed = "ListFailed"

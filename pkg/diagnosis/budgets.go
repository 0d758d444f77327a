package diagnosis

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainBudgets explains the PodDisruptionBudgets that keep pods of lower priority from leaving for a gang, one finding for each budget that allows no
// disruption now. For a single pod they do not count: kube-scheduler's preemption keeps to them where it can, and evicts all the same.
func (s *search) explainBudgets() []Finding {
	pod := s.request.Pod
	if pod.Spec.Priority == nil || pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return nil // it would evict nobody
	}
	var out []Finding
	for i := range s.facts.Space.Budgets {
		budget := &s.facts.Space.Budgets[i]
		if kept := s.keptByBudget(budget, *pod.Spec.Priority); budget.Status.DisruptionsAllowed < 1 && len(sumHolders(kept)) > 0 {
			out = append(out, describeBudget(budget, kept))
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Steps[1].Name, b.Steps[1].Name) })
	return out
}

// keptByBudget returns the pods below a priority on the nodes in question that a budget covers.
func (s *search) keptByBudget(budget *policyv1.PodDisruptionBudget, priority int32) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range s.judged {
		for _, pod := range s.withoutOwnPods(s.judged[i].holders) {
			if pod.Namespace == budget.Namespace && corehelpers.PodPriority(pod) < priority && selectorMatches(budget.Spec.Selector, pod.Labels) {
				out = append(out, pod)
			}
		}
	}
	return out
}

func describeBudget(budget *policyv1.PodDisruptionBudget, kept []*corev1.Pod) Finding {
	look := "kubectl describe pdb " + budget.Name + " -n " + budget.Namespace
	return Finding{
		Cause: reason.DisruptionBudget,
		Message: phrase.Textf("PodDisruptionBudget %s of namespace %s allows no disruption, so that pods of lower priority do not leave for the job: %s",
			budget.Name, budget.Namespace, holdersText(sumHolders(kept))),
		Steps: []Step{
			{Action: reason.Wait, Holders: sumHolders(kept), Message: phrase.Textf("wait until they end")},
			{Action: reason.AskAdministrators, Kind: "PodDisruptionBudget", Name: budget.Namespace + "/" + budget.Name, Command: look,
				Message: phrase.Textf("ask the owner of namespace %s to let its budget allow a disruption: %s", budget.Namespace, look)},
		},
	}
}

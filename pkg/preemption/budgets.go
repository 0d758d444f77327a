package preemption

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
)

// Budgets track how many disruptions each PodDisruptionBudget still allows.
type Budgets struct {
	lister policylisters.PodDisruptionBudgetLister
	// uncounted are leaving pods that a budget may not have counted yet.
	uncounted []*corev1.Pod
	known     map[string][]*Budget // by namespace
}

// Budget is one PodDisruptionBudget.
type Budget struct {
	name     string
	selector labels.Selector
	spent    map[string]bool
	// Left is how many disruptions are allowed still.
	Left int32
}

// NewBudgets returns the budgets of a lister, of which some do not count some leaving pods yet.
func NewBudgets(lister policylisters.PodDisruptionBudgetLister, uncounted []*corev1.Pod) *Budgets {
	return &Budgets{lister: lister, uncounted: uncounted, known: map[string][]*Budget{}}
}

// budgetsIn returns the budgets of a namespace.
func (b *Budgets) budgetsIn(namespace string) []*Budget {
	if all, ok := b.known[namespace]; ok || b.lister == nil {
		return all
	}
	var all []*Budget
	found, _ := b.lister.PodDisruptionBudgets(namespace).List(labels.Everything()) // from memory
	for _, pdb := range found {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue
		}
		spent := map[string]bool{}
		for name := range pdb.Status.DisruptedPods {
			spent[name] = true
		}
		all = append(all, &Budget{name: pdb.Name, selector: selector, spent: spent, Left: pdb.Status.DisruptionsAllowed})
	}
	for _, pod := range b.uncounted {
		for _, budget := range all {
			if pod.Namespace == namespace && budget.appliesTo(pod) {
				budget.Left--
			}
		}
	}
	slices.SortFunc(all, func(x, y *Budget) int { return strings.Compare(x.name, y.name) })
	b.known[namespace] = all
	return all
}

// appliesTo reports whether the disruption of a pod would count against a budget that has not counted it yet.
func (b *Budget) appliesTo(pod *corev1.Pod) bool {
	return !b.spent[pod.Name] && b.selector.Matches(labels.Set(pod.Labels))
}

// BudgetCost is how many disruptions of a budget some pods use.
type BudgetCost struct {
	*Budget
	Pods int32
}

// CountCosts returns the disruption costs of some pods, by budget.
func (b *Budgets) CountCosts(pods []*corev1.Pod) (costs []BudgetCost) {
	for _, pod := range pods {
		for _, budget := range b.budgetsIn(pod.Namespace) {
			if !budget.appliesTo(pod) {
				continue
			}
			i := slices.IndexFunc(costs, func(c BudgetCost) bool { return c.Budget == budget })
			if i < 0 {
				i, costs = len(costs), append(costs, BudgetCost{Budget: budget})
			}
			costs[i].Pods++
		}
	}
	return costs
}

// AllowsEviction reports whether the disruption of some pods is within their budgets.
func (b *Budgets) AllowsEviction(pods []*corev1.Pod) bool {
	return !ExceedsBudgets(b.CountCosts(pods))
}

// ExceedsBudgets reports whether some disruptions are more than their budgets allow.
func ExceedsBudgets(costs []BudgetCost) bool {
	return slices.ContainsFunc(costs, func(c BudgetCost) bool { return c.Left < c.Pods })
}

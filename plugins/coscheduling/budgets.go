package coscheduling

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"

	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// applyBudgets records what each unit spends of disruption budgets, and drops units whose budgets never allow their eviction. Among several
// units of one budget, the search picks the ones whose eviction helps.
func (c *occupants) applyBudgets(b *budgets) {
	stays, numbers := make([]bool, len(c.units)), map[*budget]int{}
	for i := range c.units {
		unit := &c.units[i]
		costs := b.countCosts(unit.pods)
		if stays[i] = exceedsBudgets(costs); stays[i] {
			c.keptByBudget = c.keptByBudget || unit.isBorrowing
			unit.nodes = nil
			continue
		}
		for _, cost := range costs {
			number, known := numbers[cost.budget]
			if !known {
				number = len(c.budgets)
				numbers[cost.budget], c.budgets = number, append(c.budgets, int(cost.left))
			}
			unit.spends = append(unit.spends, gangplan.Spend{Budget: number, Count: int(cost.pods)})
		}
	}
	for node, on := range c.on {
		c.on[node] = slices.DeleteFunc(on, func(o occupant) bool { return o.unit >= 0 && stays[o.unit] })
	}
}

// budgets track how many disruptions each PodDisruptionBudget still allows.
type budgets struct {
	lister policylisters.PodDisruptionBudgetLister
	// uncounted are leaving pods that a budget may not have counted yet.
	uncounted []*corev1.Pod
	known     map[string][]*budget // by namespace
}

type budget struct {
	name     string
	selector labels.Selector
	spent    map[string]bool
	left     int32
}

func newBudgets(lister policylisters.PodDisruptionBudgetLister, uncounted []*corev1.Pod) *budgets {
	return &budgets{lister: lister, uncounted: uncounted, known: map[string][]*budget{}}
}

// budgetsIn returns the budgets of a namespace.
func (b *budgets) budgetsIn(namespace string) []*budget {
	if all, ok := b.known[namespace]; ok || b.lister == nil {
		return all
	}
	var all []*budget
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
		all = append(all, &budget{name: pdb.Name, selector: selector, spent: spent, left: pdb.Status.DisruptionsAllowed})
	}
	for _, pod := range b.uncounted {
		for _, budget := range all {
			if pod.Namespace == namespace && budget.appliesTo(pod) {
				budget.left--
			}
		}
	}
	slices.SortFunc(all, func(x, y *budget) int { return strings.Compare(x.name, y.name) })
	b.known[namespace] = all
	return all
}

// appliesTo reports whether the disruption of a pod would count against a budget that has not counted it yet.
func (b *budget) appliesTo(pod *corev1.Pod) bool {
	return !b.spent[pod.Name] && b.selector.Matches(labels.Set(pod.Labels))
}

// budgetCost is how many disruptions of a budget some pods use.
type budgetCost struct {
	*budget
	pods int32
}

// countCosts returns the disruption costs of some pods, by budget.
func (b *budgets) countCosts(pods []*corev1.Pod) (costs []budgetCost) {
	for _, pod := range pods {
		for _, budget := range b.budgetsIn(pod.Namespace) {
			if !budget.appliesTo(pod) {
				continue
			}
			i := slices.IndexFunc(costs, func(c budgetCost) bool { return c.budget == budget })
			if i < 0 {
				i, costs = len(costs), append(costs, budgetCost{budget: budget})
			}
			costs[i].pods++
		}
	}
	return costs
}

// allowsEviction reports whether the disruption of some pods is within their budgets.
func (b *budgets) allowsEviction(pods []*corev1.Pod) bool {
	return !exceedsBudgets(b.countCosts(pods))
}

func exceedsBudgets(costs []budgetCost) bool {
	return slices.ContainsFunc(costs, func(c budgetCost) bool { return c.left < c.pods })
}

// Package drain removes the pods with GPUs from a node, and returns a node to service.
//
// [Decide] and [PlanRecovery] are pure. Decide returns which pods of a node are evicted, which members of their gangs on other nodes with them, and
// which require a decision by an administrator. PlanRecovery returns what prevents a node's return. A [Drainer] performs the plans within disruption
// budgets and reports its progress.
package drain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Pod is a pod of a plan.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"-"`
	Job       string    `json:"job,omitempty"`
	Node      string    `json:"node"`
	GPUs      int64     `json:"gpus"`
	// Terminating says that it is terminating already.
	Terminating bool `json:"going,omitempty"`
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Unit is a set of pods that leave together: one, or those of a gang.
type Unit struct {
	// Gang is the PodGroup, "" for a single pod.
	Gang string `json:"gang,omitempty"`
	Pods []Pod  `json:"pods"`
	// Budget is the disruption budget that blocks their eviction now, "" if there is none.
	Budget string `json:"budget,omitempty"`
}

// Hold is a pod that requires a decision by an administrator.
type Hold struct {
	Pod
	Reason eviction.Hold `json:"reason"`
}

func (h Hold) String() string { return h.Says().String() }

// Says is the pod and the reason, in every language.
func (h Hold) Says() phrase.Text {
	if h.Reason == eviction.NoController {
		return phrase.Textf("%s: nothing would start it again", h.Pod)
	}
	return phrase.Textf("%s: it is not to be moved without a person (%s)", h.Pod, names.AnnotationNoMigration)
}

// Plan is the actions for the pods of a node.
type Plan struct {
	Node string `json:"node"`
	// Units are the pods to evict, in order.
	Units []Unit `json:"units"`
	// Holds are the pods that stay unless forced.
	Holds []Hold `json:"holds,omitempty"`
	// Staying counts the pods that stay because they hold no GPUs or belong to the node.
	Staying int `json:"staying"`
}

// PodsOnNode returns the pods of the plan that are on its node.
func (p Plan) PodsOnNode() []Pod {
	var out []Pod
	for _, unit := range p.Units {
		for _, pod := range unit.Pods {
			if pod.Node == p.Node {
				out = append(out, pod)
			}
		}
	}
	return out
}

// Decide returns the plan for the pods of a node. The snapshot has all live pods, the budgets, and the sizes of gangs. force moves pods that would
// require a decision by an administrator.
func Decide(s *snapshot.Snapshot, node string, force bool) Plan {
	plan := Plan{Node: node, Units: []Unit{}}
	seen := map[types.UID]bool{}
	for _, pod := range sortPods(s.Pods) {
		switch {
		case pod.Spec.NodeName != node || gpu.HasEnded(pod) || seen[pod.UID]:
			continue
		case !holdsGPUs(pod) || gpu.BelongsToNode(pod):
			plan.Staying++
			continue
		}
		members := unitOf(s, pod, node)
		unit := Unit{Pods: make([]Pod, 0, len(members))}
		var holds []Hold
		for _, member := range members {
			seen[member.UID] = true
			unit.Pods = append(unit.Pods, podOf(member))
			if reason := eviction.HoldOf(member, eviction.Drain); reason != "" && member.DeletionTimestamp == nil {
				holds = append(holds, Hold{Pod: podOf(member), Reason: reason})
			}
		}
		if len(members) > 1 {
			of, _, _ := gangOf(s, pod)
			unit.Gang = of.Group.Name
		}
		if len(holds) > 0 && !force {
			plan.Holds = append(plan.Holds, holds...)
			continue
		}
		unit.Budget = tooFewDisruptions(s.Budgets, members)
		plan.Units = append(plan.Units, unit)
	}
	return plan
}

// sortPods returns pods sorted by namespace and name, so that plans are stable.
func sortPods(pods []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i]
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func podOf(pod *corev1.Pod) Pod {
	out := Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Job: gang.WorkloadOf(pod).JobName(), Node: pod.Spec.NodeName,
		Terminating: pod.DeletionTimestamp != nil,
	}
	if request, err := gpu.RequestOf(pod); err == nil {
		out.GPUs = request.Whole + request.Shared
	}
	return out
}

func holdsGPUs(pod *corev1.Pod) bool {
	request, err := gpu.RequestOf(pod)
	return err != nil || !request.IsZero() // one that cannot be read may hold some
}

// unitOf returns the pods that leave with a pod: itself and, if its gang cannot work without the members on the node, all live members. They would
// wait for the lost ones until a timeout, then fail, and pay a retry each.
func unitOf(s *snapshot.Snapshot, pod *corev1.Pod, node string) []*corev1.Pod {
	of, isMember, known := gangOf(s, pod)
	if !isMember {
		return []*corev1.Pod{pod}
	}
	var all, here []*corev1.Pod
	stay := 0
	for _, other := range sortPods(s.Pods) {
		if other.Spec.NodeName == "" || gpu.HasEnded(other) || !of.HasMember(other) {
			continue
		}
		all = append(all, other)
		switch {
		case other.Spec.NodeName == node:
			here = append(here, other)
		case other.DeletionTimestamp == nil:
			stay++
		}
	}
	// If members on the node are terminating, the others were evicted then: members elsewhere have been restarted.
	begun := slices.ContainsFunc(here, func(member *corev1.Pod) bool { return member.DeletionTimestamp != nil })
	if begun || known && stay >= of.MinMembers {
		return here
	}
	return all
}

// gangOf returns the gang of a pod, and whether it is in one. Its size is unknown if its PodGroup is missing or forbidden: then its members are the
// pods that name it.
func gangOf(s *snapshot.Snapshot, pod *corev1.Pod) (of gang.Gang, isMember, known bool) {
	for _, source := range gang.SourcesOf(pod) {
		if object := s.Objects[refOf(source, pod.Namespace)]; object != nil {
			of, isMember = source.Read(object)
			return of, isMember, true
		}
	}
	name, named := gang.NamedGroup(pod)
	owner := metav1.GetControllerOf(pod)
	if !named || owner == nil {
		return gang.Gang{}, false, false
	}
	return gang.Gang{Group: name, Owner: owner.UID}, true, false
}

func refOf(source gang.Source, namespace string) snapshot.ObjectRef {
	return snapshot.ObjectRef{Resource: source.Resource, Namespace: namespace, Name: source.Name}
}

// tooFewDisruptions returns a budget that blocks evicting all pods of a unit at once, "" for none.
func tooFewDisruptions(budgets []policyv1.PodDisruptionBudget, pods []*corev1.Pod) string {
	for i := range budgets {
		budget := &budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		asked := int32(0)
		for _, pod := range pods {
			protected := budget.Namespace == pod.Namespace && (err != nil || selector.Matches(labels.Set(pod.Labels)))
			if protected && pod.DeletionTimestamp == nil {
				asked++
			}
		}
		if asked > budget.Status.DisruptionsAllowed {
			return fmt.Sprintf("%s/%s", budget.Namespace, budget.Name)
		}
	}
	return ""
}

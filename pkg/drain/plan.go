// Package drain empties a node of pods with GPUs, and gives a node back.
//
// [Decide] and [Recovery] are pure: which pods of a node are evicted, which members of their gangs on other nodes with them,
// and what a person has to decide first; and what keeps a node from being given back. A [Drainer] carries it out, keeps to
// disruption budgets, and says how far it came.
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
	// Going says that it has been told to leave already.
	Going bool `json:"going,omitempty"`
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Unit are pods that leave together: one, or those of a gang.
type Unit struct {
	// Gang is the PodGroup, "" for a single pod.
	Gang string `json:"gang,omitempty"`
	Pods []Pod  `json:"pods"`
	// Budget is the disruption budget that does not let them go now, "" if none is in the way.
	Budget string `json:"budget,omitempty"`
}

// Hold is a pod that a person has to decide about.
type Hold struct {
	Pod
	Reason eviction.Hold `json:"reason"`
}

func (h Hold) String() string { return h.Says().String() }

// Says is the pod and why it is held, in every language.
func (h Hold) Says() phrase.Text {
	if h.Reason == eviction.NoController {
		return phrase.Of("%s: nothing would start it again", h.Pod)
	}
	return phrase.Of("%s: it is not to be moved without a person (%s)", h.Pod, names.AnnotationNoMigration)
}

// Plan is what is to be done about the pods of a node.
type Plan struct {
	Node string `json:"node"`
	// Units are what leaves, in the order in which it is told.
	Units []Unit `json:"units"`
	// Holds are what nobody is moved for, unless it is forced.
	Holds []Hold `json:"holds,omitempty"`
	// Staying is how many pods stay because they hold no GPUs, or belong to the node.
	Staying int `json:"staying"`
}

// Left are the pods of the plan that are on its node.
func (p Plan) Left() []Pod {
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

// Decide says what is to be done about the pods of a node. The snapshot has all pods that live, the budgets, and how many
// members gangs need. force moves what a person would have to decide about.
func Decide(s *snapshot.Snapshot, node string, force bool) Plan {
	plan := Plan{Node: node, Units: []Unit{}}
	seen := map[types.UID]bool{}
	for _, pod := range sorted(s.Pods) {
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

// sorted are pods by namespace and name, so that plans do not change from one to the next.
func sorted(pods []corev1.Pod) []*corev1.Pod {
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
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Job: pod.Labels[names.LabelJob], Node: pod.Spec.NodeName,
		Going: pod.DeletionTimestamp != nil,
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

// unitOf are the pods that leave with one: itself and, where it is of a gang that cannot work without those that leave the
// node, all that live of it. They would wait for the lost ones until a timeout, then fail, and pay a retry each.
func unitOf(s *snapshot.Snapshot, pod *corev1.Pod, node string) []*corev1.Pod {
	of, isMember, known := gangOf(s, pod)
	if !isMember {
		return []*corev1.Pod{pod}
	}
	var all, here []*corev1.Pod
	stay := 0
	for _, other := range sorted(s.Pods) {
		if other.Spec.NodeName == "" || gpu.HasEnded(other) || !of.Has(other) {
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
	// Those that have been told to leave took the others along then: who is elsewhere by now has been started again.
	begun := slices.ContainsFunc(here, func(member *corev1.Pod) bool { return member.DeletionTimestamp != nil })
	if begun || known && stay >= of.Least {
		return here
	}
	return all
}

// gangOf is the gang of a pod, and whether it is in one. How many members it needs is not known where its PodGroup is not there, or may not be
// read: its members are those that name it.
func gangOf(s *snapshot.Snapshot, pod *corev1.Pod) (of gang.Gang, isMember, known bool) {
	for _, source := range gang.SourcesOf(pod) {
		if object := s.Objects[refOf(source, pod.Namespace)]; object != nil {
			of, isMember = source.Read(object)
			return of, isMember, true
		}
	}
	name, named := gang.Named(pod)
	owner := metav1.GetControllerOf(pod)
	if !named || owner == nil {
		return gang.Gang{}, false, false
	}
	return gang.Gang{Group: name, Owner: owner.UID}, true, false
}

func refOf(source gang.Source, namespace string) snapshot.ObjectRef {
	return snapshot.ObjectRef{Resource: source.Resource, Namespace: namespace, Name: source.Name}
}

// tooFewDisruptions names a budget that does not let all pods of a unit go at once, "" if none.
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

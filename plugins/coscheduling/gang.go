package coscheduling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// gang identifies a gang: the pods with the label of one PodGroup that one controller created. Pods of a deleted job, or of another job, are not
// members, whatever their label says.
type gang struct {
	group types.NamespacedName
	// owner is the pods' controller, or the Deployment behind it. It is "" for pods without a controller, and where the PodGroup gathers the
	// pods of several owners.
	owner types.UID
}

func gangOf(pod *corev1.Pod, group *podgroup.Group) gang {
	g := gang{group: types.NamespacedName{Namespace: group.Namespace, Name: group.Name}}
	if !group.SeveralOwners {
		g.owner = placement.OwnerOf(pod)
	}
	return g
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// isLive reports whether a pod counts. A pod that is terminating or has ended holds no place for the others.
func isLive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// byGroup indexes live pods by PodGroup. byGang also includes the owner, because thousands of pods may share one label. byLeavingGroup indexes pods
// that still end on their nodes by PodGroup, byNomination pods without a node by their nominated node.
const (
	byGroup        = "podGroup"
	byGang         = "podGroupOfController"
	byLeavingGroup = "podGroupOfLeaving"
	byNomination   = "status.nominatedNodeName"
)

var podIndexers = cache.Indexers{byGroup: groupKeys, byGang: gangKeys, byLeavingGroup: leavingKeys, byNomination: nominationKeys}

// indexPods adds the indices to an informer of pods, once for all profiles.
func indexPods(pods cache.SharedIndexInformer) error {
	if _, ok := pods.GetIndexer().GetIndexers()[byGroup]; ok {
		return nil
	}
	if err := pods.AddIndexers(podIndexers); err != nil {
		return fmt.Errorf("indexing pods by their PodGroup: %w", err)
	}
	return nil
}

func nominationKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == "" {
		return nil, nil
	}
	return []string{pod.Status.NominatedNodeName}, nil
}

func groupKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if !isLive(pod) {
		return nil, nil
	}
	return namesFor(pod), nil
}

func leavingKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !partial.IsLeaving(pod) {
		return nil, nil
	}
	return namesFor(pod), nil
}

// namesFor returns the possible names of the group of a pod.
func namesFor(pod *corev1.Pod) (keys []string) {
	for _, name := range pkggang.NamesFor(pod) {
		keys = append(keys, name.String())
	}
	return keys
}

func gangKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if group, ok := pkggang.NamedGroup(pod); ok && isLive(pod) {
		return []string{gangJobName(gang{group: group, owner: placement.OwnerOf(pod)})}, nil
	}
	return nil, nil
}

// place is where a pod stands.
type place int

const (
	placeNone place = iota
	placeHeld       // it has a place by a decision of this process, which the API server may not know yet
	placeBound
	placeGone // with its node
)

// membersOf gathers the gang of a pod from its pods.
func membersOf(pod *corev1.Pod, group *podgroup.Group, pods []*corev1.Pod, placeOf func(*corev1.Pod) place) placement.Members {
	own, m := gangOf(pod, group), placement.Members{Waiting: []*corev1.Pod{pod}}
	for _, other := range pods {
		if other.UID == pod.UID || !isLive(other) || gangOf(other, group) != own {
			continue
		}
		switch at := placeOf(other); {
		case at == placeGone:
		case at != placeNone:
			m.Placed = append(m.Placed, other)
			if at == placeBound {
				m.Bound++
			}
		case other.Spec.SchedulerName != pod.Spec.SchedulerName:
			m.Foreign++
		case len(other.Spec.SchedulingGates) > 0:
			m.Gated++
		default:
			m.Waiting = append(m.Waiting, other)
		}
	}
	return m
}

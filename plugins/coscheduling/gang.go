package coscheduling

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// gang identifies a gang: the pods with the label of one PodGroup that one controller created. Pods of a deleted job, or of another job, are not
// members, whatever their label says.
type gang struct {
	group types.NamespacedName
	// owner is the pods' controller, or the Deployment behind it. It is "" for pods without a controller, and where the PodGroup gathers the
	// pods of several owners.
	owner types.UID
}

func gangOf(pod *corev1.Pod, group *podGroup) gang {
	g := gang{group: types.NamespacedName{Namespace: group.Namespace, Name: group.Name}}
	if !group.severalOwners {
		g.owner = ownerOf(pod)
	}
	return g
}

// ownerOf returns the controller of a pod, "" if it has none. For a ReplicaSet of a Deployment it returns the Deployment: during a rollout the
// new pods belong with the old ones, of which only some leave for them. Such a ReplicaSet is named "<deployment>-<pod-template-hash>", and its
// pods carry the hash as a label. So the pod alone is enough, whether or not the scheduler knows the ReplicaSet.
func ownerOf(pod *corev1.Pod) types.UID {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return types.UID("Deployment/" + deployment)
		}
	}
	return owner.UID
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// isLive reports whether a pod counts. A pod that is terminating or has ended holds no place for the others.
func isLive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// byGroup indexes pods by PodGroup. byGang also includes the owner, because thousands of pods may share one label. byNomination indexes pods
// without a node by their nominated node.
const (
	byGroup      = "podGroup"
	byGang       = "podGroupOfController"
	byNomination = "status.nominatedNodeName"
)

var podIndexers = cache.Indexers{byGroup: groupKeys, byGang: gangKeys, byNomination: nominationKeys}

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
	var keys []string
	for _, name := range pkggang.NamesFor(pod) {
		keys = append(keys, name.String())
	}
	return keys, nil
}

func gangKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if group, ok := pkggang.NamedGroup(pod); ok && isLive(pod) {
		return []string{gangJobName(gang{group: group, owner: ownerOf(pod)})}, nil
	}
	return nil, nil
}

// members are the live pods of a gang, as seen from the one to be placed.
type members struct {
	// placed are the other members that have a place: bound, or on the way to it. bound counts those known to the API server.
	placed []*corev1.Pod
	bound  int
	// waiting are the members that this scheduler has to place, the pod itself first.
	waiting []*corev1.Pod
	// gated counts members with scheduling gates, foreign counts members of another scheduler.
	gated, foreign int
	// segments are the segments of all members, computed on first use.
	segments *segmentAssignment
	// otherOwners counts pods that have the label and another owner. They are only counted if there are too few members.
	otherOwners int
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
func membersOf(pod *corev1.Pod, group *podGroup, pods []*corev1.Pod, placeOf func(*corev1.Pod) place) members {
	own, m := gangOf(pod, group), members{waiting: []*corev1.Pod{pod}}
	for _, other := range pods {
		if other.UID == pod.UID || !isLive(other) || gangOf(other, group) != own {
			continue
		}
		switch at := placeOf(other); {
		case at == placeGone:
		case at != placeNone:
			m.placed = append(m.placed, other)
			if at == placeBound {
				m.bound++
			}
		case other.Spec.SchedulerName != pod.Spec.SchedulerName:
			m.foreign++
		case len(other.Spec.SchedulingGates) > 0:
			m.gated++
		default:
			m.waiting = append(m.waiting, other)
		}
	}
	return m
}

// totalCount returns the number of members.
func (m *members) totalCount() int { return len(m.placed) + len(m.waiting) + m.gated + m.foreign }

// missingReason returns why too few members can be placed, "" if there are enough.
func (m *members) missingReason(want int) string {
	ready := len(m.placed) + len(m.waiting)
	switch all := m.totalCount(); {
	case ready >= want:
		return ""
	case all < want:
		text := reason.GangTooFew.FormatText(all, want)
		if all+m.otherOwners >= want { // such as the launcher of an MPIJob
			text += fmt.Sprintf("; the %d of other owners with its label would make it whole: if they belong to it, give the PodGroup "+
				"the annotation %s=%s", m.otherOwners, names.AnnotationSeveralOwners, names.True)
		}
		return text
	case ready+m.gated < want:
		return reasonForeign
	}
	return reasonGated
}

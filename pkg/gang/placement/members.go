package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// MaxMembers is twice the nodes of the largest cluster that Kubernetes is made for.
const MaxMembers = 10_000

// Needs are what a gang needs to begin, as its PodGroup says.
type Needs struct {
	MinMember int
	// MinResources are in cores, bytes and units.
	MinResources map[corev1.ResourceName]float64
	Layout       Layout
}

// Members are the live pods of a gang, as seen from the one to be placed.
type Members struct {
	// Placed are the other members that have a place: bound, or on the way to it. bound counts those known to the API server.
	Placed []*corev1.Pod
	Bound  int
	// Waiting are the members that this scheduler has to place, the pod itself first.
	Waiting []*corev1.Pod
	// Gated counts members with scheduling gates, foreign counts members of another scheduler.
	Gated, Foreign int
	// segments are the segments of all members, computed on first use.
	segments *segmentAssignment
	// OtherOwners counts pods that have the label and another owner. They are only counted if there are too few members.
	OtherOwners int
}

// TotalCount returns the number of members.
func (m *Members) TotalCount() int { return len(m.Placed) + len(m.Waiting) + m.Gated + m.Foreign }

// MissingReason returns why too few members can be placed, "" if there are enough.
func (m *Members) MissingReason(want int) string {
	ready := len(m.Placed) + len(m.Waiting)
	switch all := m.TotalCount(); {
	case ready >= want:
		return ""
	case all < want:
		text := reason.GangTooFew.FormatText(all, want)
		if all+m.OtherOwners >= want { // such as the launcher of an MPIJob
			text += fmt.Sprintf("; the %d of other owners with its label would make it whole: if they belong to it, give the PodGroup "+
				"the annotation %s=%s", m.OtherOwners, names.AnnotationSeveralOwners, names.True)
		}
		return text
	case ready+m.Gated < want:
		return string(reason.GangForeign.Text)
	}
	return string(reason.GangGated.Text)
}

// NeededMembers returns as many waiting members as the gang needs: nominated members first, then the member that is tried, and then the oldest; with
// segments, the lowest numbers. An index lists pods in a different order each time, which must not change decisions.
func NeededMembers(of Needs, m *Members) []*corev1.Pod {
	waiting, want := m.Waiting, min(len(m.Waiting), max(1, of.MinMember-len(m.Placed)))
	switch {
	case of.Layout.Segment > 0:
		waiting = append(slices.Clone(waiting[:1]), m.SegmentsFor(of.Layout).sortMembers(waiting[1:])...)
	case want < len(waiting):
		waiting = append(slices.Clone(waiting[:1]), sortByAge(waiting[1:])...)
	}
	return NominatedFirst(waiting)[:want]
}

func sortByAge(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), CompareIndexes(a, b))
	})
}

// NominatedFirst sorts nominated members before those beyond minMember.
func NominatedFirst(members []*corev1.Pod) []*corev1.Pod {
	rest := func(pod *corev1.Pod) int {
		if pod.Status.NominatedNodeName == "" {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(members), func(a, b *corev1.Pod) int { return rest(a) - rest(b) })
}

// sortByIndex sorts members by their index, so that members which communicate most are placed next to each other. The first pod remains among them,
// wherever the list is cut off.
func sortByIndex(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, CompareIndexes)
	return pods
}

// CompareIndexes is negative where the first of two members comes before the other.
func CompareIndexes(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// completionIndex returns a pod's index in its Job, -1 if there is none. Other pods are sorted by name: web-2 comes before web-10.
func completionIndex(pod *corev1.Pod) int {
	text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok { // the most frequent case, in which parsing would allocate an error
		return -1
	}
	if rank, err := strconv.Atoi(text); err == nil {
		return rank
	}
	return -1
}

// OwnerOf returns the controller of a pod, "" if it has none. For a ReplicaSet of a Deployment it returns the Deployment: during a rollout the
// new pods belong with the old ones, of which only some leave for them. Such a ReplicaSet is named "<deployment>-<pod-template-hash>", and its
// pods carry the hash as a label. So the pod alone is enough, whether or not the scheduler knows the ReplicaSet.
func OwnerOf(pod *corev1.Pod) types.UID {
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

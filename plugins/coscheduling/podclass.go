package coscheduling

import (
	"hash/maphash"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// podClasses are pods grouped by their requirements, so that the room for one pod of a class is the room for each of them.
type podClasses struct {
	classes []podClass
	// varied says that there are too many classes, or pods with too much to compare. Then the room for all is unknown, and each pod has to be
	// tried on its own.
	varied bool
	// compared is how much was compared so far.
	compared int
}

// podClass is a set of pods with equal requirements.
type podClass struct {
	pod   *corev1.Pod
	count int
	pods  []*corev1.Pod
}

// Bounds of what is compared for one pod in one cycle. The pods of a job are of one class, or two with a launcher. A user with pods of a
// megabyte must not make the scheduler read all of them in each cycle.
const (
	maxKinds    = 8
	maxCompared = 100_000
)

// newPodClasses groups pods.
func newPodClasses(pods []*corev1.Pod) (k podClasses) {
	for _, pod := range pods {
		k.addPod(pod)
	}
	return k
}

func (k *podClasses) addPod(pod *corev1.Pod) {
	if k.varied {
		return
	}
	for i := range k.classes {
		if k.compared += comparisonCost(pod); k.compared > maxCompared {
			k.varied = true
			return
		}
		if haveSameDemand(k.classes[i].pod, pod) {
			k.classes[i].count++
			k.classes[i].pods = append(k.classes[i].pods, pod)
			return
		}
	}
	if len(k.classes) == maxKinds {
		k.varied = true
		return
	}
	k.classes = append(k.classes, podClass{pod: pod, count: 1, pods: []*corev1.Pod{pod}})
}

// countClassesAmong returns classes with their counts reduced to the given pods.
func countClassesAmong(kinds []podClass, pods []*corev1.Pod) []podClass {
	some, of := slices.Clone(kinds), rolesOf(kinds)
	for role := range some {
		some[role].count = 0
	}
	for _, pod := range pods {
		some[of[pod.UID]].count++
	}
	return some
}

var seed = maphash.MakeSeed()

// podsFingerprint returns an equal value for the same pods with unchanged requirements, in any order. It costs a tenth of comparing them: what can
// change in a waiting pod is its generation, and the labels and annotations that matter.
func podsFingerprint(pods []*corev1.Pod) (sum uint64) {
	for _, pod := range pods {
		sum += maphash.Comparable(seed, podState{
			pod.UID, pod.Generation, len(pod.Spec.Tolerations), pod.Labels[names.LabelPool], pod.Annotations[names.AnnotationGPUTypes],
			pod.Annotations[names.AnnotationGPUShare], pod.Annotations[names.AnnotationGPUMemoryMin],
		})
	}
	return sum
}

// podState is what can change in a waiting pod.
type podState struct {
	uid                            types.UID
	generation                     int64
	tolerations                    int
	pool, gpuTypes, share, minimum string
}

// comparisonCost returns how much there is to compare in a pod.
func comparisonCost(pod *corev1.Pod) int {
	weight := 1 + len(pod.Spec.Containers) + len(pod.Spec.InitContainers) + len(pod.Spec.NodeSelector) + len(pod.Spec.Tolerations)
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return weight
	}
	if required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			term := &required.NodeSelectorTerms[i]
			weight += 1 + len(term.MatchFields)
			for j := range term.MatchExpressions {
				weight += 1 + len(term.MatchExpressions[j].Values)
			}
		}
	}
	return weight
}

// haveSameDemand reports whether pods have the same requirements, so that the room for one is the room for the other.
func haveSameDemand(a, b *corev1.Pod) bool {
	return sameContainers(a.Spec.Containers, b.Spec.Containers) && sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		sameAmounts(a.Spec.Overhead, b.Spec.Overhead) && samePodResources(a.Spec.Resources, b.Spec.Resources) &&
		maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		a.Labels[names.LabelPool] == b.Labels[names.LabelPool] &&
		a.Annotations[names.AnnotationGPUTypes] == b.Annotations[names.AnnotationGPUTypes] &&
		a.Annotations[names.AnnotationGPUShare] == b.Annotations[names.AnnotationGPUShare] &&
		a.Annotations[names.AnnotationGPUMemoryMin] == b.Annotations[names.AnnotationGPUMemoryMin] && reservation.SameMaxStay(a, b) &&
		slices.EqualFunc(a.Spec.Tolerations, b.Spec.Tolerations, sameToleration) &&
		sameAffinity(a.Spec.Affinity, b.Spec.Affinity)
}

func sameContainers(a, b []corev1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameAmounts(a[i].Resources.Requests, b[i].Resources.Requests) || !sameAmounts(a[i].Resources.Limits, b[i].Resources.Limits) ||
			!ptr.Equal(a[i].RestartPolicy, b[i].RestartPolicy) {
			return false
		}
	}
	return true
}

// samePodResources compares pod-level resources.
func samePodResources(a, b *corev1.ResourceRequirements) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameAmounts(a.Requests, b.Requests) && sameAmounts(a.Limits, b.Limits)
}

func sameAmounts(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		other, ok := b[name]
		if !ok || amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func sameToleration(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}

// sameAffinity compares the required node affinity.
func sameAffinity(a, b *corev1.Affinity) bool {
	first, second := requiredNodes(a), requiredNodes(b)
	if first == nil || second == nil {
		return first == second
	}
	return apiequality.Semantic.DeepEqual(first, second)
}

func requiredNodes(affinity *corev1.Affinity) *corev1.NodeSelector {
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}
	return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

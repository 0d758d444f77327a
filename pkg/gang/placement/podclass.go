package placement

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

// PodClasses are pods grouped by their requirements, so that the room for one pod of a class is the room for each of them.
type PodClasses struct {
	Classes []PodClass
	// Varied says that there are too many classes, or pods with too much to compare. Then the room for all is unknown, and each pod has to be
	// tried on its own.
	Varied bool
	// Compared is how much was compared so far.
	Compared int
}

// PodClass is a set of pods with equal requirements.
type PodClass struct {
	Pod   *corev1.Pod
	Count int
	Pods  []*corev1.Pod
}

// Bounds of what is compared for one pod in one cycle. The pods of a job are of one class, or two with a launcher. A user with pods of a
// megabyte must not make the scheduler read all of them in each cycle.
const (
	MaxKinds    = 8
	MaxCompared = 100_000
)

// NewPodClasses groups pods.
func NewPodClasses(pods []*corev1.Pod) (k PodClasses) {
	for _, pod := range pods {
		k.AddPod(pod)
	}
	return k
}

// AddPod adds a pod to its class.
func (k *PodClasses) AddPod(pod *corev1.Pod) {
	if k.Varied {
		return
	}
	for i := range k.Classes {
		if k.Compared += comparisonCost(pod); k.Compared > MaxCompared {
			k.Varied = true
			return
		}
		if HaveSameDemand(k.Classes[i].Pod, pod) {
			k.Classes[i].Count++
			k.Classes[i].Pods = append(k.Classes[i].Pods, pod)
			return
		}
	}
	if len(k.Classes) == MaxKinds {
		k.Varied = true
		return
	}
	k.Classes = append(k.Classes, PodClass{Pod: pod, Count: 1, Pods: []*corev1.Pod{pod}})
}

// countClassesAmong returns classes with their counts reduced to the given pods.
func countClassesAmong(kinds []PodClass, pods []*corev1.Pod) []PodClass {
	some, of := slices.Clone(kinds), rolesOf(kinds)
	for role := range some {
		some[role].Count = 0
	}
	for _, pod := range pods {
		some[of[pod.UID]].Count++
	}
	return some
}

// Seed is the seed of all fingerprints of this process.
var Seed = maphash.MakeSeed()

// PodsFingerprint returns an equal value for the same pods with unchanged requirements, in any order. It costs a tenth of comparing them: what can
// change in a waiting pod is its generation, and the labels and annotations that matter.
func PodsFingerprint(pods []*corev1.Pod) (sum uint64) {
	for _, pod := range pods {
		sum += maphash.Comparable(Seed, podState{
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

// HaveSameDemand reports whether pods have the same requirements, so that the room for one is the room for the other.
func HaveSameDemand(a, b *corev1.Pod) bool {
	return sameContainers(a.Spec.Containers, b.Spec.Containers) && sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		SameAmounts(a.Spec.Overhead, b.Spec.Overhead) && samePodResources(a.Spec.Resources, b.Spec.Resources) &&
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
		if !SameAmounts(a[i].Resources.Requests, b[i].Resources.Requests) || !SameAmounts(a[i].Resources.Limits, b[i].Resources.Limits) ||
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
	return SameAmounts(a.Requests, b.Requests) && SameAmounts(a.Limits, b.Limits)
}

// SameAmounts reports whether two lists have the same amounts.
func SameAmounts(a, b corev1.ResourceList) bool {
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

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

// kinds are pods gathered by what they ask, so that the room for one of a kind is the room for each of it.
type kinds struct {
	of []kind
	// varied says that there are too many kinds, or pods that say too much to be compared. Then nothing can be told of
	// the room for all, and each pod has to look for itself.
	varied bool
	// compared is how much has been compared.
	compared int
}

// kind is pods that ask for the same as one of them.
type kind struct {
	pod   *corev1.Pod
	count int
	all   []*corev1.Pod
}

// The bounds of what is compared for one pod in one cycle. The pods of a job are of one kind, or two with a launcher. Who
// writes pods of a megabyte must not have the scheduler read all of them in each cycle.
const (
	maxKinds    = 8
	maxCompared = 100_000
)

// kindsOf gathers pods.
func kindsOf(pods []*corev1.Pod) (k kinds) {
	for _, pod := range pods {
		k.add(pod)
	}
	return k
}

func (k *kinds) add(pod *corev1.Pod) {
	if k.varied {
		return
	}
	for i := range k.of {
		if k.compared += weight(pod); k.compared > maxCompared {
			k.varied = true
			return
		}
		if alike(k.of[i].pod, pod) {
			k.of[i].count++
			k.of[i].all = append(k.of[i].all, pod)
			return
		}
	}
	if len(k.of) == maxKinds {
		k.varied = true
		return
	}
	k.of = append(k.of, kind{pod: pod, count: 1, all: []*corev1.Pod{pod}})
}

// among are some kinds with as many of each as there are among some pods.
func among(kinds []kind, pods []*corev1.Pod) []kind {
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

// fingerprint is equal, whatever their order, for the same pods that ask for the same as before. It costs a tenth of
// comparing them: what can change of a pod that waits is its generation, and the labels and annotations that count.
func fingerprint(pods []*corev1.Pod) (sum uint64) {
	for _, pod := range pods {
		sum += maphash.Comparable(seed, state{
			pod.UID, pod.Generation, len(pod.Spec.Tolerations), pod.Labels[names.LabelPool], pod.Annotations[names.AnnotationGPUTypes],
			pod.Annotations[names.AnnotationGPUShare], pod.Annotations[names.AnnotationGPUMemoryMin],
		})
	}
	return sum
}

// state is what can change of a pod that waits.
type state struct {
	uid                            types.UID
	generation                     int64
	tolerations                    int
	pool, gpuTypes, share, minimum string
}

// weight is how much there is to compare of a pod.
func weight(pod *corev1.Pod) int {
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

// alike reports whether pods ask for the same, so that the room for one is the room for the other.
func alike(a, b *corev1.Pod) bool {
	return sameContainers(a.Spec.Containers, b.Spec.Containers) && sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		sameAmounts(a.Spec.Overhead, b.Spec.Overhead) && sameOfPod(a.Spec.Resources, b.Spec.Resources) &&
		maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		a.Labels[names.LabelPool] == b.Labels[names.LabelPool] &&
		a.Annotations[names.AnnotationGPUTypes] == b.Annotations[names.AnnotationGPUTypes] &&
		a.Annotations[names.AnnotationGPUShare] == b.Annotations[names.AnnotationGPUShare] &&
		a.Annotations[names.AnnotationGPUMemoryMin] == b.Annotations[names.AnnotationGPUMemoryMin] && reservation.SameStay(a, b) &&
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

// sameOfPod compares what pods ask for as a whole, beside their containers.
func sameOfPod(a, b *corev1.ResourceRequirements) bool {
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

// sameAffinity compares what nodes a pod requires.
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

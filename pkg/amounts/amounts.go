// Package amounts removes amounts from objects that Kubernetes' arithmetic cannot handle in reasonable time. A user may request 1e9999999 CPUs:
// the API server stores it, and each comparison of it takes a second and a half, in the one loop that schedules all pods. No pod, node or volume
// has as much as [MaxAmount].
package amounts

import (
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxAmount replaces an amount beyond all bounds, and -Most a negative one. In thousandths it still fits in 63 bits.
const MaxAmount = math.MaxInt64 / 1000

// Add adds two counts, neither of them negative, and saturates if the sum does not fit in 63 bits: a kubelet may claim any number for its node,
// and a user for a pod, and a sum that wraps looks like nothing, or less.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// maxDigits and maxExponent bound the notation of an amount. 63 bits take 19 digits.
const maxDigits, maxExponent = 32, 24

// Bound replaces all amounts beyond the bounds: in a pod, a node, a volume or its claim, a storage capacity, a device claim, and a device list.
// Other objects stay as they are.
func Bound(object any) {
	switch object := object.(type) {
	case *corev1.Pod:
		boundPod(object)
	case *corev1.Node:
		boundList(object.Status.Capacity)
		boundList(object.Status.Allocatable)
	case *corev1.PersistentVolume:
		boundList(object.Spec.Capacity)
	case *corev1.PersistentVolumeClaim:
		boundList(object.Spec.Resources.Requests)
		boundList(object.Spec.Resources.Limits)
		boundList(object.Status.Capacity)
		boundList(object.Status.AllocatedResources)
	case *storagev1.CSIStorageCapacity:
		boundOne(object.Capacity)
		boundOne(object.MaximumVolumeSize)
	case *resourcev1.ResourceClaim:
		boundClaim(object)
	case *resourcev1.ResourceSlice:
		boundSlice(object)
	}
}

func boundPod(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			boundRequirements(&containers[i].Resources)
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			boundList(statuses[i].AllocatedResources)
			boundRequirements(statuses[i].Resources)
		}
	}
	boundRequirements(pod.Spec.Resources)
	boundList(pod.Spec.Overhead)
	boundList(pod.Status.AllocatedResources)
	boundRequirements(pod.Status.Resources)
	for _, claim := range pod.Status.NodeAllocatableResourceClaimStatuses { // what is changed is behind pointers
		for _, mapped := range claim.Mapping {
			boundOne(mapped.Quantity)
		}
		for _, overhead := range claim.Overhead {
			boundOne(overhead.PerPod)
			boundOne(overhead.PerContainer)
		}
	}
}

func boundRequirements(resources *corev1.ResourceRequirements) {
	if resources != nil {
		boundList(resources.Requests)
		boundList(resources.Limits)
	}
}

// boundList bounds the amounts of a list, whatever its keys are.
func boundList[List ~map[Name]resource.Quantity, Name ~string](list List) {
	for name, amount := range list {
		if boundOne(&amount) {
			list[name] = amount
		}
	}
}

// boundOne bounds an amount, if there is one, and reports whether it has changed.
func boundOne(amount *resource.Quantity) bool {
	switch {
	case amount == nil:
		return false
	case amount.IsZero():
		// 0e999999999 is zero as well, and takes a second to compare.
		*amount = resource.Quantity{Format: amount.Format}
		return true
	case exceedsBounds(amount):
		*amount = *resource.NewQuantity(int64(amount.Sign())*MaxAmount, amount.Format)
		return true
	}
	return false
}

// exceedsBounds reports whether an amount is written longer, or with a larger exponent, than any reasonable one. It does no arithmetic.
func exceedsBounds(amount *resource.Quantity) bool {
	if _, ok := amount.AsInt64(); ok {
		return false
	}
	text := amount.String()
	digits, exponent, found := strings.Cut(text, "e")
	if len(digits) > maxDigits {
		return true
	}
	power, err := strconv.Atoi(exponent)
	return found && (err != nil || power > maxExponent || power < -maxExponent)
}

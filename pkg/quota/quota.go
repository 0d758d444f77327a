// Package quota computes which ResourceQuotas have too little left for pods, as Kubernetes counts it: before pods are created, and while they are
// refused. It is pure: its inputs are current quotas and prospective pods.
package quota

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Reason is the reason of a job whose pods a quota does not admit.
const Reason = "QuotaExceeded"

// Excess is a resource of which a quota has too little left.
type Excess struct {
	// Quota is the name of the ResourceQuota, Resource what it bounds, such as requests.nvidia.com/gpu.
	Quota    string
	Resource corev1.ResourceName
	// Asked is the total request of the pods; Used and Hard are those of the quota.
	Asked, Used, Hard resource.Quantity
	// Never says that there would be too little even if nothing else used the quota.
	Never bool
}

// Demand is a number of identical pods.
type Demand struct {
	Pod  *corev1.Pod
	Pods int64
}

// FindExcess returns what quotas have too little of for a number of identical pods; at most one entry per quota and resource. What never fits comes
// first, and then GPUs.
func FindExcess(quotas []corev1.ResourceQuota, pod *corev1.Pod, pods int64) []Excess {
	return FindCombinedExcess(quotas, []Demand{{pod, pods}})
}

// FindCombinedExcess is FindExcess for pods of several templates.
func FindCombinedExcess(quotas []corev1.ResourceQuota, demands []Demand) []Excess {
	var out []Excess
	for i := range quotas {
		quota := &quotas[i]
		for name, hard := range quota.Spec.Hard {
			var asked resource.Quantity
			for _, demand := range demands {
				if CountsPod(quota, demand.Pod) {
					asked.Add(multiplyQuantity(PodAmount(demand.Pod, name), demand.Pods))
				}
			}
			used := quota.Status.Used[name]
			sum := used.DeepCopy()
			sum.Add(asked)
			if asked.Sign() > 0 && sum.Cmp(hard) > 0 {
				out = append(out, Excess{
					Quota: quota.Name, Resource: name, Asked: asked, Used: used, Hard: hard, Never: asked.Cmp(hard) > 0,
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b Excess) int {
		return cmp.Or(-compareBools(a.Never, b.Never), -compareBools(IsGPU(a.Resource), IsGPU(b.Resource)),
			cmp.Compare(a.Quota, b.Quota), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// FilterNeverFits returns the entries that never fit.
func FilterNeverFits(over []Excess) []Excess {
	return slices.DeleteFunc(slices.Clone(over), func(e Excess) bool { return !e.Never })
}

// String returns the message in English.
func (e Excess) String() string { return e.Message().String() }

// Message returns the message as a sentence without a subject.
func (e Excess) Message() phrase.Text {
	if e.Never {
		return phrase.Textf("asks %s, the namespace may have %s (quota %s): it never fits", amountText(e.Asked, e.Resource), &e.Hard, e.Quota)
	}
	return phrase.Textf("asks %s, and %s of %s are in use (quota %s)", amountText(e.Asked, e.Resource), &e.Used, &e.Hard, e.Quota)
}

// amountText formats a quantity with its resource, in everyday words.
func amountText(quantity resource.Quantity, name corev1.ResourceName) phrase.Text {
	one := phrase.Quote(string(PlainResource(name)))
	many := one
	switch PlainResource(name) {
	case names.ResourceGPU:
		one, many = phrase.Textf("GPU"), phrase.Textf("GPUs")
	case names.ResourceSharedGPU:
		one, many = phrase.Textf("shared GPU"), phrase.Textf("shared GPUs")
	case corev1.ResourcePods, "count/pods":
		one, many = phrase.Textf("pod"), phrase.Textf("pods")
	case corev1.ResourceCPU:
		one, many = phrase.Textf("CPU"), phrase.Textf("CPUs")
	}
	if quantity.CmpInt64(1) == 0 {
		many = one
	}
	return phrase.Textf("%s %s", &quantity, many)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// IsGPU reports whether a quota resource is GPUs: whole ones, or shares.
func IsGPU(name corev1.ResourceName) bool {
	return PlainResource(name) == names.ResourceGPU || PlainResource(name) == names.ResourceSharedGPU
}

// PlainResource returns a resource name without its counting prefix.
func PlainResource(name corev1.ResourceName) corev1.ResourceName {
	return corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits."))
}

// PodAmount returns what a pod uses of a quota resource, zero if it is not a resource of pods.
func PodAmount(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	switch text := string(name); {
	case name == corev1.ResourcePods || text == "count/pods":
		return *resource.NewQuantity(1, resource.DecimalSI)
	case strings.HasPrefix(text, "limits.") && countsLimits(PlainResource(name)):
		return amounts.Limits(pod)[PlainResource(name)]
	case strings.HasPrefix(text, "requests."), name == corev1.ResourceCPU, name == corev1.ResourceMemory:
		return amounts.Requests(withDefaultRequests(pod))[PlainResource(name)]
	}
	return resource.Quantity{}
}

// countsLimits reports whether Kubernetes counts limits of a resource: it accepts bounds on limits of extended resources, but does not count them.
func countsLimits(plain corev1.ResourceName) bool {
	return plain == corev1.ResourceCPU || plain == corev1.ResourceMemory || plain == corev1.ResourceEphemeralStorage
}

// withDefaultRequests returns a pod whose containers request their limits if they have no requests, as the API server fills in. It does so in pods,
// but not in pod templates.
func withDefaultRequests(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	for _, containers := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if _, says := resources.Requests[name]; says {
					continue
				}
				if resources.Requests == nil {
					resources.Requests = corev1.ResourceList{}
				}
				resources.Requests[name] = limit
			}
		}
	}
	return out
}

// multiplyQuantity multiplies a quantity. On overflow it returns the amount of one pod: that is too much already.
func multiplyQuantity(quantity resource.Quantity, count int64) resource.Quantity {
	out := quantity.DeepCopy()
	out.Mul(count)
	return out
}

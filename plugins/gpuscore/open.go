package gpuscore

import (
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// nodeRequirements is what Kubernetes' own plugins require of a node for a pod, whatever else runs in the cluster. A list of nodes that they
// would all reject is useless, so they are checked first, at a fraction of the plugins' cost.
type nodeRequirements struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	// milliCPU, memory and storage are amounts, in bytes the latter two; slices are MIG slices by profile.
	milliCPU, memory, storage int64
	slices                    map[corev1.ResourceName]int64
}

func newNodeRequirements(pod *corev1.Pod) *nodeRequirements {
	requests := amounts.Requests(pod)
	a := &nodeRequirements{
		pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
		milliCPU: requests.Cpu().MilliValue(), memory: requests.Memory().Value(), storage: requests.StorageEphemeral().Value(),
	}
	for name, amount := range requests {
		if strings.HasPrefix(string(name), names.ResourceMIGPrefix) {
			if a.slices == nil {
				a.slices = map[corev1.ResourceName]int64{}
			}
			a.slices[name] = amount.Value()
		}
	}
	return a
}

// areMetBy reports whether a node admits the pod by labels and taints, and has room for it. It is never false if NodeAffinity, NodeUnschedulable,
// TaintToleration and NodeResourcesFit all accept the node.
func (a *nodeRequirements) areMetBy(info fwk.NodeInfo) bool {
	return a.fitsOn(info) && toleratesTaints(a.pod, info.Node()) && a.matchesAffinity(info.Node())
}

func (a *nodeRequirements) matchesAffinity(node *corev1.Node) bool {
	matches, err := a.affinity.Match(node)
	return matches || err != nil // NodeAffinity reports a malformed affinity
}

func (a *nodeRequirements) fitsOn(info fwk.NodeInfo) bool {
	all, taken := info.GetAllocatable(), info.GetRequested()
	for name, amount := range a.slices {
		if amount > all.GetScalarResources()[name]-taken.GetScalarResources()[name] {
			return false
		}
	}
	return len(info.GetPods()) < all.GetAllowedPodNumber() &&
		hasCapacity(a.milliCPU, all.GetMilliCPU(), taken.GetMilliCPU()) && hasCapacity(a.memory, all.GetMemory(), taken.GetMemory()) &&
		hasCapacity(a.storage, all.GetEphemeralStorage(), taken.GetEphemeralStorage())
}

func hasCapacity(asked, all, taken int64) bool { return asked == 0 || asked <= all-taken }

// toleratesTaints reports whether the pod tolerates all taints of a node, including that of a cordoned node.
func toleratesTaints(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable && !schedulinghelper.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &cordoned, true) {
		return false
	}
	if len(node.Spec.Taints) == 0 {
		return true
	}
	_, found := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	return !found
}

// cordoned is the taint that a cordoned node counts as having.
var cordoned = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

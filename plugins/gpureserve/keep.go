package gpureserve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// keptNodes is the set of idle nodes that are kept from a pod while it is scheduled. Clones of the cycle share it.
type keptNodes struct {
	worth *fragmentation.Kept
	pool  string
	// maxNodes is how many nodes are kept.
	maxNodes int

	// nodes are the names of the kept nodes, determined when the first node is filtered: none if there are more than most, which is enough for
	// the pods that need a whole node.
	once  sync.Once
	nodes sets.Set[string]
	err   error
	// counted counts the pod.
	counted sync.Once
}

// Clone implements fwk.StateData.
func (k *keptNodes) Clone() fwk.StateData { return k }

// newKeptNodes returns the nodes kept from a pod, nil for none: the pod takes a whole node or no GPU, it is urgent, or it is a gang member whose
// siblings would take places and give them up again without it.
func newKeptNodes(expected *cycle.Expectation, pod *corev1.Pod) *keptNodes {
	asked := &expected.Asked
	if asked.NeedsNoGPUs() || gang.MayBeMember(pod) || mayPreempt(pod, 0) {
		return nil
	}
	forecast := expected.Forecasts.ForPool(asked.Pool)
	if forecast == nil {
		return nil
	}
	most := forecast.KeptNodes().CountFor(asked.Whole, expected.KeepPerMille)
	if most == 0 {
		return nil
	}
	return &keptNodes{worth: forecast.KeptNodes(), pool: asked.Pool, maxNodes: int(most)}
}

// mayPreempt reports whether a pod can evict others of a priority.
func mayPreempt(pod *corev1.Pod, priority int32) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever &&
		schedulinghelper.PodPriority(pod) > priority
}

// nodesToKeep returns the kept nodes, none if there are more than necessary, or if the pod could preempt instead. Nodes that the pod does not
// tolerate, or that are cordoned, are left out: they may be of no use to anyone.
func (p *Plugin) nodesToKeep(k *keptNodes, pod *corev1.Pod) (sets.Set[string], error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of the snapshot: %w", err)
	}
	p.idle.sweepClocks(p.isIdle)
	idle := sets.Set[string]{}
	for _, node := range nodes {
		switch {
		case node.Node() == nil || gpu.PoolOf(node.Node()) != k.pool:
		case observe.HasGPUsInUse(node):
			if hasVictim(pod, node) {
				return nil, nil
			}
		case p.worthKeeping(k, node) && toleratesTaints(pod, node.Node()):
			if idle.Insert(node.Node().Name); idle.Len() > k.maxNodes {
				return nil, nil
			}
		}
	}
	p.idle.expireNodes(idle, p.Now())
	return idle, nil
}

// isIdle reports whether a node exists, and none of its GPUs is in use.
func (p *Plugin) isIdle(name string) bool {
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	return err == nil && node.Node() != nil && !observe.HasGPUsInUse(node)
}

// hasVictim reports whether a pod could evict one of the pods on a node.
func hasVictim(pod *corev1.Pod, node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(other fwk.PodInfo) bool {
		return mayPreempt(pod, schedulinghelper.PodPriority(other.GetPod()))
	})
}

// worthKeeping reports whether an idle node could take one of the pods that nodes are kept for.
func (p *Plugin) worthKeeping(k *keptNodes, node fwk.NodeInfo) bool {
	if gpu.PoolOf(node.Node()) != k.pool {
		return false
	}
	allocator, _, _ := p.Devices.NodeGPUs(node)
	left := observe.ShapeOf(node, allocator)
	left.MilliCPU, left.MemoryMiB = observe.LeftOf(node)
	return k.worth.CoversNode(left)
}

// toleratesTaints reports whether no taint keeps a pod from a node.
func toleratesTaints(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	_, found := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	return !found
}

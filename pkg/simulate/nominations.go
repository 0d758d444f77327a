package simulate

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominations are the pods with a nominated node on which victims make room for them. kube-scheduler uses its queue for that, which is empty here.
// Preemption calls it from goroutines.
type nominations struct {
	mu sync.Mutex
	to map[string][]fwk.PodInfo
	on map[types.UID]string
}

var _ fwk.PodNominator = (*nominations)(nil)

func newNominations() *nominations {
	return &nominations{to: map[string][]fwk.PodInfo{}, on: map[types.UID]string{}}
}

// AddNominatedPod implements fwk.PodNominator.
func (n *nominations) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removePod(pod.GetPod().UID)
	node := pod.GetPod().Status.NominatedNodeName
	if info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	if node != "" {
		n.on[pod.GetPod().UID] = node
		n.to[node] = append(n.to[node], pod)
	}
}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (n *nominations) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removePod(pod.UID)
}

// UpdateNominatedPod implements fwk.PodNominator.
func (n *nominations) UpdateNominatedPod(logger klog.Logger, _ *corev1.Pod, pod fwk.PodInfo) {
	n.AddNominatedPod(logger, pod, nil)
}

// NominatedPodsForNode implements fwk.PodNominator.
func (n *nominations) NominatedPodsForNode(node string) []fwk.PodInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.to[node])
}

func (n *nominations) removePod(uid types.UID) {
	node, ok := n.on[uid]
	if !ok {
		return
	}
	delete(n.on, uid)
	n.to[node] = slices.DeleteFunc(n.to[node], func(pod fwk.PodInfo) bool { return pod.GetPod().UID == uid })
}

// updateNomination nominates a pod for the node that its status names, if it names one.
func (n *nominations) updateNomination(pod *corev1.Pod) {
	info, err := framework.NewPodInfo(pod)
	if err != nil || pod.Status.NominatedNodeName == "" { // a pod that cannot be read is never placed
		n.DeleteNominatedPodIfExists(pod)
		return
	}
	n.AddNominatedPod(klog.Background(), info, nil)
}

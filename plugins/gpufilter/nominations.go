package gpufilter

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/devices"
)

// nominations remembers the nominated node of each pod until after its binding. A nomination keeps pods of no higher priority off the GPUs of
// its node. When its pod is bound to another node these become free, and no event says so: the API server clears the nomination with the
// binding, and the scheduler's event only has the pod after that.
//
// It has its own event handler, which runs beside the scheduler's. Pods are nominated at least one scheduling cycle before they are bound, so it
// is not late. It keeps an entry until the pod is gone or nominated to no node, so it is not early. It holds a word for each existing pod that
// was ever nominated.
type nominations struct {
	mu        sync.RWMutex
	nodeByPod map[types.UID]string
}

// watchNominations starts to remember the nominations of an informer's pods.
func watchNominations(pods cache.SharedIndexInformer) (*nominations, error) {
	n := &nominations{nodeByPod: map[types.UID]string{}}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    n.recordNomination,
		UpdateFunc: n.handleUpdate,
		DeleteFunc: n.forgetPod,
	})
	if err != nil {
		return nil, fmt.Errorf("watching which pods are nominated: %w", err)
	}
	return n, nil
}

// recordNomination records the nomination of a waiting pod. That of a pod on a node does not change.
func (n *nominations) recordNomination(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return
	}
	node := pod.Status.NominatedNodeName
	if node == n.nodeOf(pod) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if node == "" {
		delete(n.nodeByPod, pod.UID)
		return
	}
	n.nodeByPod[pod.UID] = node
}

// handleUpdate also detects a deleted pod of which only the successor of the same name is reported, after a broken watch.
func (n *nominations) handleUpdate(before, after any) {
	old, okOld := before.(*corev1.Pod)
	pod, okNew := after.(*corev1.Pod)
	if okOld && okNew && old.UID != pod.UID {
		n.forgetPod(old)
	}
	n.recordNomination(after)
}

func (n *nominations) forgetPod(obj any) {
	if pod, ok := devices.LastKnown[*corev1.Pod](obj); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.nodeByPod, pod.UID)
	}
}

// nodeOf returns the node that a pod was last nominated to, or "".
func (n *nominations) nodeOf(pod *corev1.Pod) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.nodeByPod[pod.UID]
}

// NominationLeft returns the node whose GPUs come free because a pod, which was nominated to it, went to another; or "".
func (p *Plugin) NominationLeft(pod *corev1.Pod) string {
	return p.nominations.leftBy(pod)
}

// leftBy returns the node whose GPUs come free because a pod, which was nominated to it, went to another; or "".
func (n *nominations) leftBy(pod *corev1.Pod) string {
	node := n.nodeOf(pod)
	if pod.Spec.NodeName == "" || node == pod.Spec.NodeName {
		return ""
	}
	return node
}

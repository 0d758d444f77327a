package plugins

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	listersv1 "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulernames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// nodeLocalPlugins are the plugins whose verdict on a node depends on that node, what is on it, and the pod: what happens on another node never
// changes it.
var nodeLocalPlugins = sets.New(
	gpufilter.Name, schedulernames.NodeAffinity, schedulernames.NodeDeclaredFeatures, schedulernames.NodeName, schedulernames.NodePorts, schedulernames.NodeResourcesFit,
	schedulernames.NodeUnschedulable, schedulernames.TaintToleration,
)

// confinement is what a rejection says of a pod: an event on a node with fewer GPUs than the pod asks for, or without the labels that it
// selects, is no news to it. Pods that ask for the same share one, which stays in the processor's cache while the queue goes over them.
type confinement struct {
	// key identifies it in confined.kinds.
	key string
	// gpus is the number of whole GPUs that each of the pods asks for.
	gpus     int64
	selector map[string]string
	// pods counts those that share it.
	pods int
}

// keepsOff reports whether the pods could not go to a node, which offers so many GPUs, if that were empty.
func (f *confinement) keepsOff(node *corev1.Node, gpus int64) bool {
	if f.gpus > gpus {
		return true
	}
	for key, value := range f.selector {
		if has, ok := node.Labels[key]; !ok || has != value {
			return true
		}
	}
	return false
}

// confinedPods holds the waiting pods that only plugins of nodeLocalPlugins have rejected. Such a pod is concerned neither by events that none of these
// plugins registers for, nor by events on nodes that it could not go to even if they were empty. kube-scheduler's queue, which stays locked
// while it asks each plugin about each waiting pod, skips it then. The queue still visits each pod once an event, so this look-up reads no
// memory of the pod itself: with 20,000 pods spread over a gigabyte that was two thirds of an event's time. BenchmarkReach measures it.
type confinedPods struct {
	nodes listersv1.NodeLister
	// events are those that the plugins of nodeLocalPlugins register for. Of these plugins only GPUFilter registers for a pod that arrives on a node,
	// which may leave another one that it was nominated to: nominationLeft names that.
	events         []fwk.ClusterEvent
	nominationLeft func(*corev1.Pod) string

	// mu is read-locked while the queue goes over its pods.
	mu    sync.RWMutex
	kinds map[string]*confinement
	// pods are by their object in the queue, which current has of each pod.
	pods    map[*corev1.Pod]*confinement
	current map[types.UID]*corev1.Pod
}

// newConfinedPods follows the queue of a scheduler.
func newConfinedPods(sched *scheduler.Scheduler) *confinedPods {
	c := &confinedPods{kinds: map[string]*confinement{}, pods: map[*corev1.Pod]*confinement{}, current: map[types.UID]*corev1.Pod{}}
	for _, profile := range sched.Profiles {
		c.nodes = profile.SharedInformerFactory().Core().V1().Nodes().Lister() // of all profiles the same
		for _, plugin := range profile.EnqueueExtensions() {
			if !nodeLocalPlugins.Has(plugin.Name()) {
				continue
			}
			registered, err := plugin.EventsToRegister(context.Background())
			if err != nil { // kube-scheduler, which asked before, would not have started
				registered = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}}}
			}
			for _, event := range registered {
				c.events = append(c.events, event.Event)
			}
			if filter, ok := plugin.(*gpufilter.Plugin); ok {
				c.nominationLeft = filter.NominationLeft // of all profiles the same
			}
		}
	}
	return c
}

// recordRejection records which plugins rejected a pod. What keeps a PodGroup of Kubernetes waiting concerns all of it.
func (c *confinedPods) recordRejection(info *framework.QueuedPodInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(info.Pod.UID)
	if info.Pod.Spec.SchedulingGroup != nil || info.UnschedulablePlugins.Len() == 0 || info.PendingPlugins.Len() > 0 || !nodeLocalPlugins.IsSuperset(info.UnschedulablePlugins) {
		return
	}
	demand, _ := gpu.DemandOf(info.Pod) // of a malformed one that is more than any node has
	key := fmt.Sprint(demand.Whole, labels.Set(info.Pod.Spec.NodeSelector))
	kind, ok := c.kinds[key]
	if !ok {
		kind = &confinement{key: key, gpus: demand.Whole, selector: info.Pod.Spec.NodeSelector}
		c.kinds[key] = kind
	}
	kind.pods++
	c.pods[info.Pod], c.current[info.Pod.UID] = kind, info.Pod
}

// replaceObject takes note of the object that the queue holds of a pod from now on. What a confinement depends on never changes in a pod
// that has been tried.
func (c *confinedPods) replaceObject(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.current[pod.UID]
	if !ok {
		return
	}
	kind := c.pods[was]
	delete(c.pods, was)
	c.pods[pod], c.current[pod.UID] = kind, pod
}

func (c *confinedPods) forgetPod(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(pod)
}

// forgetLocked is forgetPod under the lock.
func (c *confinedPods) forgetLocked(pod types.UID) {
	was, ok := c.current[pod]
	if !ok {
		return
	}
	kind := c.pods[was]
	delete(c.pods, was)
	delete(c.current, pod)
	if kind.pods--; kind.pods == 0 {
		delete(c.kinds, kind.key)
	}
}

// filterByReach has an event go only to the pods that check lets through, nil for all, and that it can concern. It holds for one event, and
// while c.mu is read-locked.
func (c *confinedPods) filterByReach(event fwk.ClusterEvent, before, after any, check queue.PreEnqueueCheck) queue.PreEnqueueCheck {
	node, anywhere := c.nodeOfEvent(event, before, after)
	if anywhere {
		return check
	}
	var gpus int64
	if node != nil {
		offered := node.Status.Allocatable[names.ResourceGPU]
		gpus = offered.Value()
	}
	var last *confinement // many pods in a row share one
	var keptOff bool
	return func(pod *corev1.Pod) bool {
		if kind := c.pods[pod]; kind == nil {
			return check == nil || check(pod)
		} else if kind != last {
			last, keptOff = kind, node == nil || kind.keepsOff(node, gpus)
		}
		return !keptOff && (check == nil || check(pod))
	}
}

// nodeOfEvent returns the one node where an event may be news to confined pods, as it is by now: nil where it is news to none of them. The event
// may be news to all where anywhere is true, which a node that is not known is a case of.
func (c *confinedPods) nodeOfEvent(event fwk.ClusterEvent, before, after any) (node *corev1.Node, anywhere bool) {
	if framework.ClusterEventIsWildCard(event) {
		return nil, true
	}
	if !slices.ContainsFunc(c.events, func(registered fwk.ClusterEvent) bool { return framework.MatchClusterEvents(registered, event) }) {
		return nil, false
	}
	switch event.Resource {
	case fwk.Node:
		node, ok := after.(*corev1.Node)
		return node, !ok
	case fwk.AssignedPod:
		name, ok := c.nodeLeft(event, before, after)
		if !ok || c.nodes == nil {
			return nil, true
		}
		if name == "" {
			return nil, false
		}
		node, err := c.nodes.Get(name)
		return node, err != nil
	}
	return nil, true
}

// nodeLeft returns the one node of which a pod gives something back, "" for none; false where that may be several nodes.
func (c *confinedPods) nodeLeft(event fwk.ClusterEvent, before, after any) (string, bool) {
	if arrived, ok := after.(*corev1.Pod); ok && event.ActionType == fwk.Add && c.nominationLeft != nil {
		return c.nominationLeft(arrived), true
	}
	gone, ok := before.(*corev1.Pod)
	if !ok || event.ActionType != fwk.Delete {
		return "", false
	}
	if on, to := gone.Spec.NodeName, gone.Status.NominatedNodeName; on != "" && to != "" && on != to {
		return "", false // a nomination to another node ends with it
	}
	name := cmp.Or(gone.Spec.NodeName, gone.Status.NominatedNodeName)
	return name, name != ""
}

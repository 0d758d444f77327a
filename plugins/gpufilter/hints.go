package gpufilter

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/hint"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// EventsToRegister names the events that can make room for a pod that this plugin rejected:
//   - a new node may be of the pod's pool and type;
//   - a change of labels may move a node into the pool, or out of one that is kept for others, or name its type;
//   - a change of labels or taints may open a node to the pod: while its affinity, or a taint, keeps the pod off, nothing else that
//     happens there is news to it;
//   - a change of allocatable may bring GPUs, as when a device plugin comes back;
//   - a change of conditions may tell that the node's agent serves again;
//   - a change of annotations may bring cards of the inventory, as when one turns healthy;
//   - a pod that leaves a node, or a nomination, gives its GPUs back, and what else there is too little of beside what was
//     promised of the node. A pod that ends is reported the same way, since the scheduler's pod informer selects terminated
//     pods away;
//   - a pod that asks for less than before, on a node of which something was promised;
//   - a pod that appears on a node leaves the other one that it was nominated to;
//   - an update of the pod itself may change its pool or types, or give it a deadline. An update of its annotations alone is
//     reported only to those who register the general Update.
//
// Another update of a pod on a node changes none of this, but if it names other cards; plugins.Wrap reports that as the pod
// leaving. It reports the nodes of a reservation that ends, or changes, as new ones.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodeEvents := fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation | fwk.UpdateNodeCondition | fwk.UpdateNodeTaint
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeEvents}, QueueingHintFn: p.afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete | fwk.UpdatePodScaleDown}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.afterPodChange},
	}, nil
}

// afterNodeChange queues the pod when the node begins to suit it, or gets more of what it asks for.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	d, err := demandOf(pod)
	if err != nil || after == nil || !p.isSuitable(&d, after) || !hint.Admits(pod, after) {
		return fwk.QueueSkip, nil // no node fixes a malformed request
	}
	if before == nil || !p.isSuitable(&d, before) || !hint.Admits(pod, before) || offersMore(&d, before, after) || p.gainsDevices(&d, before, after) || p.hasOpened(pod, before, after) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterPodChange queues the pod when its own demand changed, when another pod left GPUs that suit it, or when another pod was bound to a
// different node than its nominated one.
func (p *Plugin) afterPodChange(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := hint.TypedObjects[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case before == nil && after == nil:
		return fwk.QueueSkip, nil
	case before == nil:
		return hint.QueueIf(p.freesGPUsOn(p.nominations.leftBy(after), after, pod)), nil
	case after == nil:
		return hint.QueueIf(p.freesGPUs(before, pod)), nil
	case after.UID != pod.UID:
		return hint.QueueIf(p.freesReservedRoom(p.nodes.getNode(after.Spec.NodeName), before, pod)), nil
	}
	return hint.QueueIf(demandChanged(before, after) || !reservation.SameMaxStay(before, after)), nil
}

// freesGPUs reports whether a departed pod held GPUs that the waiting pod could use.
func (p *Plugin) freesGPUs(gone, waiting *corev1.Pod) bool {
	return p.freesGPUsOn(cmp.Or(gone.Spec.NodeName, gone.Status.NominatedNodeName), gone, waiting)
}

// freesGPUsOn reports whether a pod that has left a node, or was expected there, releases GPUs that the waiting pod could use. An empty name stands
// for no node.
func (p *Plugin) freesGPUsOn(nodeName string, gone, waiting *corev1.Pod) bool {
	if nodeName == "" {
		return false
	}
	d, err := demandOf(waiting)
	if err != nil {
		return false
	}
	node := p.nodes.getNode(nodeName)
	freed, _ := gpu.RequestOf(gone) // a request that overflows held whole GPUs, and RequestOf says so
	cards := d.Cards.NeedsGPUs() && (freed.Whole > 0 || freed.Shared > 0)
	sliced := d.Cards.NeedsSlices() && freed.MIG > 0
	if !cards && !sliced {
		return p.freesReservedRoom(node, gone, waiting)
	}
	// A GPU is whole or shared depending on its holder, so either way it can serve both.
	return node != nil && p.isSuitable(&d, node) && hint.Admits(waiting, node)
}

// freesReservedRoom reports whether what a pod held on a node may be what the waiting pod lacks beside the start reservations, its GPUs apart: no
// other plugin has rejected that node for lack of CPU.
func (p *Plugin) freesReservedRoom(node *corev1.Node, held, waiting *corev1.Pod) bool {
	if node == nil || !p.startReservations.ReservesNode(node.Name) {
		return false
	}
	d, err := demandOf(waiting)
	return err == nil && p.isSuitable(&d, node) && hint.Admits(waiting, node) && p.startReservations.ReservedFrom(waiting).MakesRoom(node, cycle.PodResourceRequests(held))
}

// demandChanged reports whether an update of a pod changed what this plugin reads, for something readable.
func demandChanged(before, after *corev1.Pod) bool {
	now, err := demandOf(after)
	if err != nil {
		return false
	}
	then, err := demandOf(before)
	return err != nil || !reflect.DeepEqual(then, now)
}

// isSuitable reports whether the pod would fit on the empty node.
func (p *Plugin) isSuitable(d *demand, node *corev1.Node) bool {
	if p.rules.judgeLabels(d, node) != statusFits {
		return false
	}
	if d.Cards.IsZero() {
		return true
	}
	if nodestate.AgentClosure(node) != nil {
		return false
	}
	allocator := p.deviceCache.AllocatorFor(node)
	if allocator.NamesSlices() && !allocator.SliceShortage(&gpu.SlicesUsed{}, &d.Cards).IsZero() {
		return false
	}
	if !d.Cards.NeedsGPUs() {
		return true
	}
	_, reason := allocator.Allocate(&gpu.Used{}, &d.Cards)
	return reason.IsZero() && roomStatus(d.Cards.Whole, offeredAmount(node, names.ResourceGPU), 0) == statusFits &&
		roomStatus(d.Cards.Shared, offeredAmount(node, names.ResourceSharedGPU), 0) == statusFits
}

// hasOpened reports whether a node was kept from the pod by a reservation and no longer is, because it left the reserved pool.
func (p *Plugin) hasOpened(pod *corev1.Pod, before, after *corev1.Node) bool {
	if gpu.PoolOf(before) == gpu.PoolOf(after) {
		return false
	}
	closed := p.reservations.ClosedFor(pod)
	return closed.FirstOn(before) != nil && closed.FirstOn(after) == nil
}

// gainsDevices reports whether a GPU or a MIG slice of the node has become able to serve the demand.
func (p *Plugin) gainsDevices(d *demand, before, after *corev1.Node) bool {
	if d.Cards.IsZero() {
		return false
	}
	then, now := p.deviceCache.AllocatorFor(before), p.deviceCache.AllocatorFor(after)
	return then != now && (now.GainsSlices(then, &d.Cards) || d.Cards.NeedsGPUs() && gainsGPUs(&d.Cards, then, now))
}

func gainsGPUs(d *gpu.Demand, then, now *gpu.Allocator) bool {
	return slices.ContainsFunc(now.Inventory().GPUs, func(card gpu.GPU) bool {
		return canServe(d, &card) && !slices.ContainsFunc(then.Inventory().GPUs, func(old gpu.GPU) bool {
			return old.UUID == card.UUID && old.MemoryMiB >= card.MemoryMiB && old.ShareableMiB() >= card.ShareableMiB() && canServe(d, &old)
		})
	})
}

// canServe reports whether a free GPU can serve the demand.
func canServe(d *gpu.Demand, card *gpu.GPU) bool {
	return card.Health == gpu.Healthy && card.MemoryMiB >= d.MemoryMinMiB && (d.Shared == 0 || card.ShareableMiB() >= d.ShareMiB)
}

// offersMore reports whether the node's allocatable amount of a requested resource has grown.
func offersMore(d *demand, before, after *corev1.Node) bool {
	more := func(asked int64, name corev1.ResourceName) bool {
		return asked > 0 && offeredAmount(after, name) > offeredAmount(before, name)
	}
	return more(d.Cards.Whole, names.ResourceGPU) || more(d.Cards.Shared, names.ResourceSharedGPU)
}

func offeredAmount(node *corev1.Node, name corev1.ResourceName) int64 {
	quantity := node.Status.Allocatable[name]
	return quantity.Value()
}

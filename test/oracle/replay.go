package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// replay is the cluster as of one revision, by pod UID and node name.
type replay struct {
	pods       map[string]*pod
	nodes      map[string]*node
	revision   int64
	violations []Violation
}

// pod is a pod that is on a node.
type pod struct {
	name, node string
	devices    string // its annotation
	gpus       int64  // whole GPUs that it asks for
	slots      int64  // slots on shared GPUs that it asks for
	cards      map[string]held
}

// node is what a node offers. It stays known when it is deleted, because its pods live on for a while.
type node struct {
	gpus, slots int64
	memoryMiB   map[string]int64 // by the UUID of every card that the node has ever shown
	pods        []*pod           // in the order in which they came
}

func (r *replay) apply(e *Event) {
	r.revision = e.Revision
	switch {
	case e.Node != nil && e.Type != watch.Deleted:
		r.updateNode(e.Node)
	case e.Pod != nil && (e.Type == watch.Deleted || finished(e.Pod)):
		r.remove(string(e.Pod.UID))
	case e.Pod != nil:
		r.updatePod(e.Pod)
	}
}

func (r *replay) updateNode(object *corev1.Node) {
	n := r.node(object.Name)
	n.gpus = offered(object, names.ResourceGPU)
	n.slots = offered(object, names.ResourceSharedGPU)
	inventory, _ := gpu.InventoryOf(object) // the best that is known, which the scheduler has to take too
	for i := range inventory.Cards {
		n.memoryMiB[inventory.Cards[i].UUID] = inventory.Cards[i].MemoryMiB
	}
}

func offered(object *corev1.Node, resource corev1.ResourceName) int64 {
	quantity := object.Status.Allocatable[resource]
	return quantity.Value()
}

func (r *replay) node(name string) *node {
	if r.nodes[name] == nil {
		r.nodes[name] = &node{memoryMiB: map[string]int64{}}
	}
	return r.nodes[name]
}

func (r *replay) remove(uid string) {
	p, ok := r.pods[uid]
	if !ok {
		return
	}
	delete(r.pods, uid)
	n := r.node(p.node)
	n.pods = slices.DeleteFunc(n.pods, func(other *pod) bool { return other == p })
}

// updatePod places a pod that comes to a node. One that is there must not change its place.
func (r *replay) updatePod(object *corev1.Pod) {
	uid := string(object.UID)
	before, bound := r.pods[uid]
	if bound && before.node == object.Spec.NodeName && before.devices == object.Annotations[names.AnnotationGPUDevices] {
		return
	}
	if bound {
		rule, detail := Moved, fmt.Sprintf("it is on node %q now", object.Spec.NodeName)
		if before.node == object.Spec.NodeName {
			rule, detail = Rewritten, fmt.Sprintf("from %q to %q", before.devices, object.Annotations[names.AnnotationGPUDevices])
		}
		r.report(Violation{Rule: rule, Node: before.node, Pods: []string{before.name}, Detail: detail})
		r.remove(uid)
	}
	if object.Spec.NodeName != "" {
		r.place(uid, object)
	}
}

func (r *replay) place(uid string, object *corev1.Pod) {
	p := &pod{name: nameOf(object), node: object.Spec.NodeName, devices: object.Annotations[names.AnnotationGPUDevices]}
	demand, err := gpu.DemandOf(object)
	if err == nil {
		p.gpus, p.slots = demand.Whole, demand.Shared
	}
	if err == nil && object.Spec.SchedulerName == names.SchedulerName && demand.NeedsCards() {
		p.cards, err = cardsOf(&demand, p.devices)
	}
	if err != nil {
		r.report(Violation{Rule: Unfounded, Node: p.node, Pods: []string{p.name}, Detail: err.Error()})
	}
	n := r.node(p.node)
	n.pods = append(n.pods, p)
	r.pods[uid] = p
	r.checkCounts(n, p)
	for _, uuid := range slices.Sorted(maps.Keys(p.cards)) {
		r.checkCard(n, p, uuid)
	}
}

// checkCounts holds the pods of a node against what it offers, when one has come.
func (r *replay) checkCounts(n *node, last *pod) {
	var gpus, slots int64
	for _, p := range n.pods {
		gpus += p.gpus
		slots += p.slots
	}
	for _, sum := range []struct {
		resource           string
		held, offers, asks int64
	}{
		{names.ResourceGPU, gpus, n.gpus, last.gpus},
		{names.ResourceSharedGPU, slots, n.slots, last.slots},
	} {
		if sum.asks > 0 && sum.held > sum.offers {
			r.report(Violation{Rule: OverAllocatable, Node: last.node, Pods: []string{last.name},
				Detail: fmt.Sprintf("%d of %d %s", sum.held, sum.offers, sum.resource)})
		}
	}
}

// checkCard holds the holders of one card against each other, when one has come.
func (r *replay) checkCard(n *node, last *pod, uuid string) {
	memory, exists := n.memoryMiB[uuid]
	if !exists {
		r.report(Violation{Rule: Unfounded, Node: last.node, Card: uuid, Pods: []string{last.name}, Detail: "the node has no such card"})
	}
	mine, shared := last.cards[uuid], int64(0)
	var sharers []string
	for _, p := range n.pods {
		theirs, holds := p.cards[uuid]
		if !holds {
			continue
		}
		if !theirs.whole {
			shared += theirs.memoryMiB
			sharers = append(sharers, p.name)
		}
		if p == last {
			continue
		}
		if rule := conflict(mine, theirs); rule != "" {
			r.report(Violation{Rule: rule, Node: last.node, Card: uuid, Pods: []string{p.name, last.name}})
		}
	}
	if exists && !mine.whole && shared > memory {
		r.report(Violation{Rule: OverMemory, Node: last.node, Card: uuid, Pods: sharers, Detail: fmt.Sprintf("%d of %d MiB", shared, memory)})
	}
}

// conflict names the rule that two holders of one card break, "" for none.
func conflict(a, b held) Rule {
	switch {
	case a.whole && b.whole:
		return TwoHolders
	case a.whole != b.whole:
		return Mixed
	}
	return ""
}

func (r *replay) report(v Violation) {
	v.Revision = r.revision
	r.violations = append(r.violations, v)
}

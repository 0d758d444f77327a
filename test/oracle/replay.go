package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	resourcehelper "k8s.io/component-helpers/resource"

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
	devices    string           // its annotation
	asks       map[string]int64 // by resource of GPUs
	cards      map[string]held  // by UUID
	slices     map[string]slice // by UUID, as it names them
}

// node is what a node offers. It stays known when it is deleted, because its pods live on for a while.
type node struct {
	offers    map[string]int64 // by resource of GPUs
	shareable map[string]int64 // by the UUID of every card that the node has ever shown: the most that shares could hold of it
	slices    map[string]slice // by the UUID of every MIG slice that the node has ever shown
	names     bool             // it tells which slices it has now, so that pods are told theirs
	pods      []*pod           // in the order in which they came
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
	n.offers = gpusIn(object.Status.Allocatable)
	inventory, _ := gpu.InventoryOf(object) // the best that is known, which the scheduler has to take too
	for i := range inventory.GPUs {
		card := &inventory.GPUs[i]
		n.shareable[card.UUID] = max(n.shareable[card.UUID], card.ShareableMiB())
	}
	n.show(inventory.Sliced)
}

// gpusIn returns the amounts of GPUs in a list: whole ones, slots on shared ones, and MIG slices of each profile.
func gpusIn(list corev1.ResourceList) map[string]int64 {
	amounts := map[string]int64{}
	for name, quantity := range list {
		if names.IsGPU(name) {
			amounts[string(name)] = quantity.Value()
		}
	}
	return amounts
}

func (r *replay) node(name string) *node {
	if r.nodes[name] == nil {
		r.nodes[name] = &node{shareable: map[string]int64{}, slices: map[string]slice{}}
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
	n := r.node(p.node)
	demand, err := gpu.DemandOf(object)
	if err == nil {
		p.asks = gpusIn(resourcehelper.PodRequests(object, resourcehelper.PodResourcesOptions{}))
	}
	if err == nil && object.Spec.SchedulerName == names.SchedulerName && (demand.NeedsGPUs() || demand.NeedsSlices()) {
		err = p.read(&demand, n)
	}
	if err != nil {
		r.report(Violation{Rule: Unfounded, Node: p.node, Pods: []string{p.name}, Detail: err.Error()})
	}
	n.pods = append(n.pods, p)
	r.pods[uid] = p
	r.checkCounts(n, p)
	for _, uuid := range slices.Sorted(maps.Keys(p.cards)) {
		r.checkCard(n, p, uuid)
	}
	for _, uuid := range slices.Sorted(maps.Keys(p.slices)) {
		r.checkSlice(n, p, uuid)
	}
	r.checkCuts(n, p)
}

// read finds out what a pod that came to a node holds of it. Slices are named where the node tells which it has.
func (p *pod) read(demand *gpu.Demand, n *node) error {
	if p.devices == "" {
		if !demand.NeedsGPUs() && !n.names {
			return nil
		}
		return fmt.Errorf("it has no annotation %s", names.AnnotationGPUDevices)
	}
	choice, err := gpu.ParseChoice(p.devices)
	if err != nil {
		return fmt.Errorf("reading annotation %s: %w", names.AnnotationGPUDevices, err)
	}
	if p.cards, err = cardsOf(demand, choice.GPUs); err != nil {
		return err
	}
	if n.names || len(choice.Slices) > 0 {
		p.slices, err = slicesOf(demand, choice.Slices)
	}
	return err
}

// checkCounts holds the pods of a node against what it offers, when one has come.
func (r *replay) checkCounts(n *node, last *pod) {
	for _, resource := range slices.Sorted(maps.Keys(last.asks)) {
		var held int64
		for _, p := range n.pods {
			held += p.asks[resource]
		}
		if last.asks[resource] > 0 && held > n.offers[resource] {
			r.report(Violation{Rule: OverAllocatable, Node: last.node, Pods: []string{last.name},
				Detail: fmt.Sprintf("%d of %d %s", held, n.offers[resource], resource)})
		}
	}
}

// checkCard holds the holders of one card against each other, when one has come.
func (r *replay) checkCard(n *node, last *pod, uuid string) {
	shareable, exists := n.shareable[uuid]
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
	if exists && !mine.whole && shared > shareable {
		r.report(Violation{Rule: OverMemory, Node: last.node, Card: uuid, Pods: sharers, Detail: fmt.Sprintf("%d of %d MiB", shared, shareable)})
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

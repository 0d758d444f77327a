package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// slice is a MIG slice: its size, and the UUID of its card.
type slice struct{ profile, card string }

// show takes down what a node tells of its cards in MIG mode.
func (n *node) show(sliced []gpu.SlicedGPU) {
	n.names = false
	for i := range sliced {
		for _, cut := range sliced[i].Slices {
			n.names = true
			n.slices[cut.UUID] = slice{cut.Profile, sliced[i].UUID}
		}
	}
}

// slicesOf tells which MIG slices a pod holds, by UUID, and compares them with what its containers ask for. No two containers that
// run at the same time may have one together.
func slicesOf(demand *gpu.Demand, assignment gpu.SliceAssignment) (map[string]slice, error) {
	if err := compareSlices(demand.Slices, assignment); err != nil {
		return nil, err
	}
	var starts []start
	for _, asked := range demand.Slices {
		starts = append(starts, start{asked.Container, asked.Lifetime})
	}
	all := map[string]slice{}
	for _, running := range moments(slices.Compact(starts)) {
		now := map[string]bool{}
		for _, container := range running {
			for _, held := range assignment[container] {
				if now[held.UUID] {
					return nil, fmt.Errorf("container %s has MIG slice %s together with another container", container, held.UUID)
				}
				now[held.UUID], all[held.UUID] = true, slice{held.Profile, held.ParentUUID}
			}
		}
	}
	return all, nil
}

// compareSlices counts the slices of each profile of each container.
func compareSlices(demands []gpu.SliceDemand, assignment gpu.SliceAssignment) error {
	type part struct{ container, profile string }
	has, asks := map[part]int64{}, map[part]int64{}
	var parts []part
	for _, asked := range demands {
		parts = append(parts, part{asked.Container, asked.Profile})
		asks[part{asked.Container, asked.Profile}] = asked.Count
	}
	for container, all := range assignment {
		for _, held := range all {
			parts = append(parts, part{container, held.Profile})
			has[part{container, held.Profile}]++
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.container, b.container), cmp.Compare(a.profile, b.profile))
	})
	for _, p := range parts {
		if has[p] != asks[p] {
			return fmt.Errorf("container %s has %d MIG slices of %s and asks for %d", p.container, has[p], p.profile, asks[p])
		}
	}
	return nil
}

// checkSlice holds one slice against what the node tells of it and against its holders, when one has come.
func (r *replay) checkSlice(n *node, last *pod, uuid string) {
	named := last.slices[uuid]
	switch known, exists := n.slices[uuid]; {
	case !exists:
		r.report(Violation{Rule: Unfounded, Node: last.node, Card: uuid, Pods: []string{last.name}, Detail: "the node has no such MIG slice"})
	case named != known:
		r.report(Violation{Rule: Unfounded, Node: last.node, Card: uuid, Pods: []string{last.name},
			Detail: fmt.Sprintf("it is a %s of card %s, and the pod has it as a %s of card %s", known.profile, known.card, named.profile, named.card)})
	}
	for _, p := range n.pods {
		if _, holds := p.slices[uuid]; holds && p != last {
			r.report(Violation{Rule: SliceTwice, Node: last.node, Card: uuid, Pods: []string{p.name, last.name}})
		}
	}
}

// checkCuts finds cards that one pod has, whole or shared, while one has a slice of them, when one of the two has come.
func (r *replay) checkCuts(n *node, last *pod) {
	for _, p := range n.pods {
		both := append(bothOf(n, p, last), bothOf(n, last, p)...)
		slices.Sort(both)
		for _, card := range slices.Compact(both) {
			pods := slices.Compact([]string{p.name, last.name}) // it may be one pod
			r.report(Violation{Rule: CardAndSlice, Node: last.node, Card: card, Pods: pods})
		}
	}
}

// bothOf returns the cards that one pod has as such and of which the other has slices, by the node's word where it tells.
func bothOf(n *node, has, cut *pod) []string {
	var cards []string
	for uuid, named := range cut.slices {
		card := named.card
		if known, exists := n.slices[uuid]; exists {
			card = known.card
		}
		if _, holds := has.cards[card]; holds {
			cards = append(cards, card)
		}
	}
	return cards
}

package defrag

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// whyNot says why no moves make room for a pod: what is in the way on the node that comes closest.
func (p *planner) whyNot(request *fit.Request) string {
	why := whyNoNode
	view := candidates{p.cluster, request}
	for at, node := range p.nodes {
		if !request.InScope(node.Object) {
			continue
		}
		var undo []func()
		for _, pod := range view.Movable(at) {
			undo = append(undo, p.take(pod, at))
		}
		obstacles, cards := request.Obstacles(node)
		for _, back := range slices.Backward(undo) {
			back()
		}
		if len(obstacles) == 0 {
			return whyNowhere
		}
		if !slices.ContainsFunc(obstacles, func(o fit.Obstacle) bool { return !heals(o, cards) }) {
			why = whyFixed
		}
	}
	return why
}

// heals reports whether pods that leave take an obstacle away.
func heals(o fit.Obstacle, cards gpu.Reason) bool {
	switch o.Kind {
	case fit.Cards:
		return cards.IsShortage()
	case fit.CPUShort, fit.MemoryShort, fit.ResourceShort, fit.PodLimit:
		return true
	}
	return false
}

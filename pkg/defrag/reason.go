package defrag

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/fit"
)

// whyNot says why no moves make room for a pod: what is in the way on the node that comes closest.
func (p *planner) whyNot(request *fit.Request) string {
	why := whyNoNode
	for at, node := range p.nodes {
		if !request.InScope(node.Object) {
			continue
		}
		movable, young := below(request, p.movable[at]), below(request, p.young[at])
		switch {
		case fitsWithout(request, node, movable):
			return whyNowhere
		case fitsWithout(request, node, slices.Concat(movable, young)):
			why = whyYoung
		case why == whyNoNode && fitsEmpty(request, node):
			why = whyFixed
		}
	}
	return why
}

// fitsWithout reports whether a pod would fit on a node that some pods have left.
func fitsWithout(request *fit.Request, node *fit.Node, left []*fit.Request) bool {
	for _, pod := range left {
		back := node.Remove(pod.Pod)
		defer back() // the last one first
	}
	obstacles, _ := request.Obstacles(node)
	return len(obstacles) == 0
}

// fitsEmpty reports whether a pod would fit on a node on which no pod is.
func fitsEmpty(request *fit.Request, node *fit.Node) bool {
	obstacles, _ := request.Obstacles(fit.NewNode(node.Object, nil, nil))
	return len(obstacles) == 0
}

// below leaves out the pods that outrank the one that waits.
func below(request *fit.Request, pods []*fit.Request) []*fit.Request {
	return slices.DeleteFunc(slices.Clone(pods), func(r *fit.Request) bool { return outranks(r.Pod, request.Pod) })
}

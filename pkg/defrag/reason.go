package defrag

import (
	"slices"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// whyNot returns why no moves help a pod: what blocks it on the node that comes closest.
func (p *planner) whyNot(request *fit.Request) phrase.Text {
	young, fixed := false, false // on some node, only young pods or only fixed pods are in the way
	for at, node := range p.nodes {
		if !request.InScope(node.Object) {
			continue
		}
		movable, late := withoutOutranking(request, p.movable[at]), withoutOutranking(request, p.young[at])
		switch {
		case fitsWithout(request, node, movable):
			return whyNowhere
		case fitsWithout(request, node, slices.Concat(movable, late)):
			young = true
		case !young && !fixed:
			fixed = fitsEmpty(request, node)
		}
	}
	switch {
	case young:
		return whyYoung
	case fixed:
		return whyFixed
	}
	return whyNoNode
}

// fitsWithout reports whether a pod would fit on a node without some of its pods.
func fitsWithout(request *fit.Request, node *fit.Node, left []*fit.Request) bool {
	for _, pod := range left {
		back := node.RemovePod(pod.Pod)
		defer back() // in reverse order
	}
	obstacles, _ := request.Obstacles(node)
	return len(obstacles) == 0
}

// fitsEmpty reports whether a pod would fit on an empty node.
func fitsEmpty(request *fit.Request, node *fit.Node) bool {
	obstacles, _ := request.Obstacles(fit.NewNode(node.Object, nil, nil))
	return len(obstacles) == 0
}

// withoutOutranking omits the pods that outrank the waiting one.
func withoutOutranking(request *fit.Request, pods []*fit.Request) []*fit.Request {
	return slices.DeleteFunc(slices.Clone(pods), func(r *fit.Request) bool { return outranks(r.Pod, request.Pod) })
}

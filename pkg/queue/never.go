package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// emptied are the nodes of a pool as if no pod were on them, and no taint or cordon kept pods away: those come and go.
// They are made when they are first looked at.
type emptied struct {
	nodes      []corev1.Node
	made       []*fit.Node
	topologies gpu.Topologies
}

func newEmptied(nodes []corev1.Node, pool string) *emptied {
	inPool := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool { return gpu.PoolOf(&node) != pool })
	return &emptied{nodes: inPool, made: make([]*fit.Node, len(inPool))}
}

func (e *emptied) node(i int) *fit.Node {
	if e.made[i] == nil {
		object := e.nodes[i].DeepCopy()
		object.Spec.Unschedulable, object.Spec.Taints = false, nil
		e.made[i] = fit.NewNode(object, nil, &e.topologies)
	}
	return e.made[i]
}

// canHold reports whether the empty nodes could hold one pod of a job, and all of them if they are a gang.
func (e *emptied) canHold(pods []*corev1.Pod) bool {
	if pods[0].Labels[names.LabelPodGroup] == "" {
		pods = pods[:1]
	}
	var undo []func()
	defer func() {
		for _, back := range undo {
			back()
		}
	}()
	at := 0 // pods of a job ask alike: a node that one finds full is full for the next
	for _, pod := range pods {
		request, err := fit.RequestOf(pod)
		if err != nil {
			return true // it is not for this to judge
		}
		for at < len(e.nodes) && (!request.InScope(&e.nodes[at]) || !e.node(at).Place(request)) {
			at++
		}
		if at == len(e.nodes) {
			return false
		}
		node := e.node(at)
		undo = append(undo, func() { node.Remove(pod) })
	}
	return true
}

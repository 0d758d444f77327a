package plugins

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulernames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// mostProbed is how many nodes are asked about one after the other. Where so many of the best are rejected, for what
// nobody foresees, looking at all of them in many goroutines is the better way.
const mostProbed = 256

// probing is a profile that narrows the nodes down to the one that the pod will go to, where there is an order of what they
// are worth: the filters are asked about one node after the other until one passes, once all plugins have read the pod.
type probing struct{ framework.Framework }

// RunPreFilterPlugins has the plugins read the pod, and then finds its node. Without one they read it again, with no list.
func (p probing) RunPreFilterPlugins(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, narrowing := p.Framework.RunPreFilterPlugins(ctx, cs, pod)
	list := shortlist.Open(cs)
	if !status.IsSuccess() || list.InOrder() == nil {
		return result, status, narrowing
	}
	node := p.firstToPass(ctx, cs, pod, list, result)
	if node == "" {
		list.Withdraw()
		return p.Framework.RunPreFilterPlugins(ctx, cs, pod)
	}
	if narrowing == nil {
		narrowing = sets.Set[string]{}
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, status, narrowing.Insert(gpufilter.Name)
}

// firstToPass returns the first node of a list that all filters accept, "" if none of those probed is.
func (p probing) firstToPass(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, list *shortlist.List, within *fwk.PreFilterResult) string {
	var spread spreading
	probed := 0
	for node := range list.InOrder() {
		name := node.Node().Name
		if !within.AllNodes() && !within.NodeNames.Has(name) || spread.rejects(pod, node.Node()) {
			continue
		}
		status := p.RunFilterPluginsWithNominatedPods(ctx, cs, pod, node)
		if status.IsSuccess() {
			return name
		}
		if probed++; probed == mostProbed || !status.IsRejected() {
			return ""
		}
		if status.Plugin() == schedulernames.PodTopologySpread && len(p.NominatedPodsForNode(name)) == 0 {
			spread.note(pod, node.Node())
		}
	}
	return ""
}

// spreading knows which parts of a cluster have too many of a pod's kind for its topology spread constraints, by the values
// of their topology keys. What PodTopologySpread says of one node holds for all nodes with the same values, as long as it
// counts no pods that are nominated there.
type spreading struct{ full sets.Set[string] }

// rejects reports whether a node is in a part that is known to be full.
func (s *spreading) rejects(pod *corev1.Pod, node *corev1.Node) bool {
	return len(s.full) > 0 && s.full.Has(domainOf(pod, node))
}

func (s *spreading) note(pod *corev1.Pod, node *corev1.Node) {
	if s.full == nil {
		s.full = sets.Set[string]{}
	}
	s.full.Insert(domainOf(pod, node))
}

// domainOf joins the values of the topology keys of a pod's constraints, with what is no label value for a label that is
// not there.
func domainOf(pod *corev1.Pod, node *corev1.Node) string {
	var values strings.Builder
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		value, ok := node.Labels[constraint.TopologyKey]
		if !ok {
			value = "/"
		}
		values.WriteString(value + ",")
	}
	return values.String()
}

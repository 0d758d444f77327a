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

// maxProbedNodes is how many nodes are tried one after the other. If so many of the best are rejected for unforeseen reasons, trying all of them in
// parallel is better.
const maxProbedNodes = 256

// probingProfile is a profile that narrows the nodes to the one that the pod will go to, if nodes are ranked: once all plugins have read the pod, the
// filters run on one node after the other until one passes.
type probingProfile struct{ framework.Framework }

// RunPreFilterPlugins runs the PreFilter plugins, and then finds the node. If there is none, the plugins run again, without a list.
func (p probingProfile) RunPreFilterPlugins(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
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

// firstToPass returns the first node of a list that all filters accept, "" if no probed node passes.
func (p probingProfile) firstToPass(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, list *shortlist.List, within *fwk.PreFilterResult) string {
	var spread fullDomains
	probed := 0
	for node := range list.InOrder() {
		name := node.Node().Name
		if !within.AllNodes() && !within.NodeNames.Has(name) || spread.isInFullDomain(pod, node.Node()) {
			continue
		}
		status := p.RunFilterPluginsWithNominatedPods(ctx, cs, pod, node)
		if status.IsSuccess() {
			return name
		}
		if probed++; probed == maxProbedNodes || !status.IsRejected() {
			return ""
		}
		if status.Plugin() == schedulernames.PodTopologySpread && len(p.NominatedPodsForNode(name)) == 0 {
			spread.addDomain(pod, node.Node())
		}
	}
	return ""
}

// fullDomains tracks the domains that have too many pods for the topology spread constraints of a pod, by the values of their topology keys. The
// verdict of PodTopologySpread on one node holds for all nodes with the same values, as long as it counts no nominated pods there.
type fullDomains struct{ full sets.Set[string] }

// isInFullDomain reports whether a node is in a domain that is known to be full.
func (s *fullDomains) isInFullDomain(pod *corev1.Pod, node *corev1.Node) bool {
	return len(s.full) > 0 && s.full.Has(domainOf(pod, node))
}

func (s *fullDomains) addDomain(pod *corev1.Pod, node *corev1.Node) {
	if s.full == nil {
		s.full = sets.Set[string]{}
	}
	s.full.Insert(domainOf(pod, node))
}

// domainOf joins the values of the topology keys of a pod's constraints. A missing label is represented by a string that is no label value.
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

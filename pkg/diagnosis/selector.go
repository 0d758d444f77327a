package diagnosis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// describeUnselectedNodes describes nodes without the labels that a pod selects: which labels, and which nodes of other pools have them.
func (s *search) describeUnselectedNodes(out *Finding, count phrase.Text) {
	missing := s.unmetLabels()
	out.Message = phrase.Textf("%s without the labels that the job's node selector or node affinity asks for", count)
	if len(missing) > 0 {
		out.Message = out.Message.Addf(": none has %s", joinList(missing))
	}
	out.Message = out.Message.Add(s.nodesHavingIt(func(node *corev1.Node) bool {
		return gpu.PoolOf(node) != s.request.Pool && s.requestInPoolOfNode(node).SelectsNode(node)
	}))
	out.Steps = s.elsewherePools(false)
	if slices.ContainsFunc(missing, isMemoryLabel) {
		out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: names.AnnotationGPUMemoryMin,
			Message: phrase.Textf("ask for the memory of GPUs by the pod's annotation %s, such as 40Gi, and not by a label of nodes", names.AnnotationGPUMemoryMin)})
	}
	out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Field: "spec.nodeSelector", Command: gpuctlCommand("delete", &s.facts.Job),
		Message: phrase.Textf("delete the job, correct the selector, and submit it again: kubectl get node --show-labels shows what there is")})
	if s.facts.Job.Kind == KindPod {
		out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.nodeSelector", Command: "kubectl get node --show-labels",
			Message: phrase.Textf("correct the selector of the pod: kubectl get node --show-labels shows what there is")})
	}
}

// unmetLabels are the labels that the pod selects and no node of its pool and type has.
func (s *search) unmetLabels() []string {
	var out []string
	selector := s.request.Pod.Spec.NodeSelector
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if !slices.ContainsFunc(s.judged, func(j judgedNode) bool { return j.node.Labels[key] == selector[key] }) {
			out = append(out, key+"="+selector[key])
		}
	}
	return out
}

// isMemoryLabel reports whether a label, as key=value, gives the memory of GPUs.
func isMemoryLabel(label string) bool {
	key, _, _ := strings.Cut(label, "=")
	return key == names.LabelMemory || key == names.LabelNVIDIAMemory
}

// nodesHavingIt lists some nodes outside the pod's pool that meet a condition, from the pool with the most of them; "" if none does.
func (s *search) nodesHavingIt(has func(*corev1.Node) bool) phrase.Text {
	pools := map[string][]string{}
	for i := range s.facts.Cluster.Nodes {
		if node := &s.facts.Cluster.Nodes[i]; has(node) {
			pools[gpu.PoolOf(node)] = append(pools[gpu.PoolOf(node)], node.Name)
		}
	}
	if len(pools) == 0 {
		return nil
	}
	most := slices.MinFunc(slices.Collect(maps.Keys(pools)), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(pools[b]), len(pools[a])), cmp.Compare(a, b))
	})
	slices.Sort(pools[most])
	return phrase.Textf("; of pool %s, these have it: %s", most, shortList(pools[most]))
}

// explainVendorSelector explains a selector for the GPU vendor, accelerator=nvidia, where types are only models. Pods that ask for GPUs go to nodes with GPUs
// without such a selector.
func (s *search) explainVendorSelector(inPool []corev1.Node) (Step, bool) {
	asked := s.request.Types.AcceptedNames()
	with := slices.DeleteFunc(slices.Clone(inPool), func(node corev1.Node) bool { return !hasGPUs(&node, false) && !hasGPUs(&node, true) })
	if len(asked) != 1 || !strings.EqualFold(asked[0], vendorNVIDIA) || len(with) == 0 {
		return Step{}, false
	}
	found := make([]string, len(with))
	for i := range with {
		found[i] = with[i].Name
	}
	slices.Sort(found)
	return Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.nodeSelector", Value: names.LabelAccelerator, Message: phrase.Textf(
		"leave GPU type %s out of the node selector: a pod that asks for GPUs goes to nodes which have some, of %s: %s", asked[0], s.poolText(), shortList(found))}, true
}

// vendorNVIDIA is a frequent value in selectors for a type of GPUs.
const vendorNVIDIA = "nvidia"

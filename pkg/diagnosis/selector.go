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

// unselected describes nodes without the labels that a pod selects: which labels, and which nodes of other pools have them.
func (s *search) unselected(out *Finding, count phrase.Text) {
	missing := s.unmet()
	out.Says = phrase.Of("%s without the labels that the job's node selector or node affinity asks for", count)
	if len(missing) > 0 {
		out.Says = out.Says.And(": none has %s", listOf(missing))
	}
	out.Says = out.Says.With(s.haveIt(func(node *corev1.Node) bool {
		return gpu.PoolOf(node) != s.request.Pool && s.onNode(node).Selects(node)
	}))
	out.Steps = s.elsewherePools(false)
	if slices.ContainsFunc(missing, isMemoryLabel) {
		out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: names.AnnotationGPUMemoryMin,
			Says: phrase.Of("ask for the memory of GPUs by the pod's annotation %s, such as 40Gi, and not by a label of nodes", names.AnnotationGPUMemoryMin)})
	}
	out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Field: "spec.nodeSelector", Command: command("delete", &s.facts.Job),
		Says: phrase.Of("delete the job, correct the selector, and submit it again: kubectl get node --show-labels shows what there is")})
	if s.facts.Job.Kind == KindPod {
		out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.nodeSelector", Command: "kubectl get node --show-labels",
			Says: phrase.Of("correct the selector of the pod: kubectl get node --show-labels shows what there is")})
	}
}

// unmet are the labels that the pod selects and no node of its pool and type has.
func (s *search) unmet() []string {
	var out []string
	selector := s.request.Pod.Spec.NodeSelector
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if !slices.ContainsFunc(s.judged, func(j judged) bool { return j.node.Labels[key] == selector[key] }) {
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

// haveIt lists some nodes outside the pod's pool that meet a condition, from the pool with the most of them; "" if none does.
func (s *search) haveIt(has func(*corev1.Node) bool) phrase.Text {
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
	return phrase.Of("; of pool %s, these have it: %s", most, shortList(pools[most]))
}

// vendorAlone explains a selector for the GPU vendor, accelerator=nvidia, where types are only models. Pods that ask for GPUs go to nodes with GPUs
// without such a selector.
func (s *search) vendorAlone(inPool []corev1.Node) (Step, bool) {
	asked := s.request.Types.Names()
	with := slices.DeleteFunc(slices.Clone(inPool), func(node corev1.Node) bool { return !offers(&node, false) && !offers(&node, true) })
	if len(asked) != 1 || !strings.EqualFold(asked[0], vendorNVIDIA) || len(with) == 0 {
		return Step{}, false
	}
	found := make([]string, len(with))
	for i := range with {
		found[i] = with[i].Name
	}
	slices.Sort(found)
	return Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.nodeSelector", Value: names.LabelAccelerator, Says: phrase.Of(
		"leave GPU type %s out of the node selector: a pod that asks for GPUs goes to nodes which have some, of %s: %s", asked[0], s.where(), shortList(found))}, true
}

// vendorNVIDIA is a frequent value in selectors for a type of GPUs.
const vendorNVIDIA = "nvidia"

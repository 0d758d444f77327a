package diagnosis

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// antiAffinityHolder is a pod with an anti-affinity against another one, with its topology domain.
type antiAffinityHolder struct {
	pod        *corev1.Pod
	key, value string
	// nodes are those of the pod's pool and type that are blocked.
	nodes []string
}

// withAntiAffinityHolders replaces the scheduler's message with the pods that keep this pod off nodes, because the message does not name them. The message stays
// where no such pod is found.
func (s *search) withAntiAffinityHolders(findings []Finding) []Finding {
	at := slices.IndexFunc(findings, func(f Finding) bool { return f.Cause == reason.AntiAffinityOfOthers })
	if at < 0 {
		return findings
	}
	keepers := s.antiAffinityHolders()
	if len(keepers) == 0 {
		return findings
	}
	first, nodes := keepers[0], map[string]bool{}
	for _, k := range keepers {
		for _, name := range k.nodes {
			nodes[name] = true
		}
	}
	out := &findings[at]
	out.Nodes, out.Examples = len(nodes), first.nodes[:min(len(first.nodes), maxListed)]
	name := first.pod.Namespace + "/" + first.pod.Name
	out.Message = phrase.Textf("pod %s holds an anti-affinity against this job on all nodes with %s=%s", name, first.key, first.value)
	if len(keepers) > 1 {
		out.Message = out.Message.Addf(", the first of %d such pods", len(keepers))
	}
	out.Steps = append([]Step{s.antiAffinityHolderStep(first.pod)}, waitStep("wait until it ends"))
	return findings
}

// antiAffinityHolderStep is the step for a pod that keeps this pod off nodes. For a pod of the same job no step would help.
func (s *search) antiAffinityHolderStep(pod *corev1.Pod) Step {
	show := "kubectl get pod " + pod.Name + " -n " + pod.Namespace + " -o yaml"
	if job := pod.Labels[names.LabelJob]; pod.Namespace == s.facts.Job.Namespace && job != "" {
		end := "gpuctl delete " + job + " -n " + pod.Namespace
		return Step{Action: reason.Inspect, Kind: "Pod", Name: pod.Name, Command: end,
			Message: phrase.Textf("end it, if it may end: %s. Nothing of this job has to change", end)}
	}
	return Step{Action: reason.AskAdministrators, Kind: "Pod", Name: pod.Namespace + "/" + pod.Name, Command: show,
		Message: phrase.Textf("ask the owner of namespace %s, or the administrators, to take it away: %s. Nothing of this job has to change", pod.Namespace, show)}
}

// antiAffinityHolders returns the pods whose required anti-affinity keeps the pod off nodes of its pool and type. Pods that block the most nodes come first, and
// pods of other namespaces before pods of the job's own.
func (s *search) antiAffinityHolders() []antiAffinityHolder {
	pod := s.request.Pod
	domains := map[string]map[string]string{} // the labels of nodes, by name
	for i := range s.facts.Cluster.Nodes {
		domains[s.facts.Cluster.Nodes[i].Name] = s.facts.Cluster.Nodes[i].Labels
	}
	var out []antiAffinityHolder
	for i := range s.facts.Cluster.Pods {
		holder := &s.facts.Cluster.Pods[i]
		if holder.Spec.Affinity == nil || holder.Spec.Affinity.PodAntiAffinity == nil {
			continue
		}
		for j := range holder.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			term := &holder.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[j]
			value, ok := domains[holder.Spec.NodeName][term.TopologyKey]
			if !ok || !s.termSelects(term, holder.Namespace, pod) {
				continue
			}
			if nodes := s.nodesWithLabel(term.TopologyKey, value); len(nodes) > 0 {
				out = append(out, antiAffinityHolder{pod: holder, key: term.TopologyKey, value: value, nodes: nodes})
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b antiAffinityHolder) int {
		return cmp.Or(cmp.Compare(len(b.nodes), len(a.nodes)), compareBool(a.pod.Namespace == pod.Namespace, b.pod.Namespace == pod.Namespace))
	})
	return out
}

// compareBool puts what is not so first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// nodesWithLabel returns the nodes of the pod's pool and type that have a label.
func (s *search) nodesWithLabel(key, value string) []string {
	var out []string
	for i := range s.judged {
		if got, ok := s.judged[i].node.Labels[key]; ok && got == value {
			out = append(out, s.judged[i].node.Name)
		}
	}
	slices.Sort(out)
	return out
}

// termSelects reports whether an affinity term of a pod in a namespace selects another pod. If the labels of the other pod's namespace are unknown, a
// namespace selector counts as a match, since the scheduler reported that some pod matches.
func (s *search) termSelects(term *corev1.PodAffinityTerm, namespace string, pod *corev1.Pod) bool {
	if !selectorMatches(term.LabelSelector, pod.Labels) {
		return false
	}
	if term.NamespaceSelector == nil && len(term.Namespaces) == 0 {
		return namespace == pod.Namespace
	}
	if slices.Contains(term.Namespaces, pod.Namespace) {
		return true
	}
	if term.NamespaceSelector == nil {
		return false
	}
	for i := range s.facts.Space.Namespaces {
		if of := &s.facts.Space.Namespaces[i]; of.Name == pod.Namespace {
			return selectorMatches(term.NamespaceSelector, of.Labels)
		}
	}
	return true
}

func selectorMatches(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}

package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// ofJobs is a term that selects the pods of all jobs in a zone.
func ofJobs(change func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelTopologyZone,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: names.LabelJob, Operator: metav1.LabelSelectorOpExists}}},
	}
	change(&term)
	return term
}

func ofItsNamespace(*corev1.PodAffinityTerm) {}

func ofAllNamespaces(term *corev1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} }

func ofNamespacesLike(term *corev1.PodAffinityTerm) {
	term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
}

func ofNamespaces(namespaces ...string) func(*corev1.PodAffinityTerm) {
	return func(term *corev1.PodAffinityTerm) { term.Namespaces = namespaces }
}

func likeItself(term *corev1.PodAffinityTerm) {
	ofAllNamespaces(term)
	term.MatchLabelKeys = []string{"app"}
}

func apart(change func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{ofJobs(ofItsNamespace), ofJobs(change)},
		}}
	}
}

func ratherApart(change func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: ofJobs(change)}},
		}}
	}
}

func together(change func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{ofJobs(change)},
		}}
	}
}

func ratherTogether(change func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: ofJobs(change)}},
		}}
	}
}

func portOfItsNode(pod *corev1.Pod) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

// TestNobodyKeepsOthersFromNodes is about what a pod that has a node imposes on pods of others.
func TestNobodyKeepsOthersFromNodes(t *testing.T) {
	const refused = "may select pods of their own namespace alone"
	namespace := team(t, nil)
	tests := map[string]attack{
		"apart from the jobs of its namespace":                 {change: apart(ofItsNamespace)},
		"apart from the jobs of its namespace, by name":        {change: apart(ofNamespaces(namespace))},
		"apart from the jobs of all namespaces":                {change: apart(ofAllNamespaces), want: refused + " (namespaceSelector)"},
		"apart from the jobs of all namespaces, without GPUs":  {change: both(apart(ofAllNamespaces), withoutGPUs), want: refused},
		"apart from the jobs of all, by another scheduler":     {change: both(apart(ofAllNamespaces), withoutGPUs, scheduledBy("default-scheduler")), want: refused},
		"apart from the jobs of some namespaces":               {change: apart(ofNamespacesLike), want: refused},
		"apart from the jobs of another namespace":             {change: apart(ofNamespaces("research")), want: refused + " (namespaces)"},
		"apart from the jobs of its namespace and another one": {change: apart(ofNamespaces(namespace, "research")), want: "from namespaces all but " + namespace},
		"apart from those that are like it, in all namespaces": {change: apart(likeItself), want: refused},
		"rather apart from the jobs of all namespaces":         {change: ratherApart(ofAllNamespaces), want: refused},
		"rather apart from the jobs of another namespace":      {change: ratherApart(ofNamespaces("research")), want: refused},
		"rather apart from the jobs of its namespace":          {change: ratherApart(ofItsNamespace)},
		"beside the jobs of all namespaces":                    {change: together(ofAllNamespaces), want: refused},
		"beside the jobs of its namespace":                     {change: together(ofItsNamespace)},
		"rather beside the jobs of all namespaces":             {change: ratherTogether(ofAllNamespaces), want: refused},
		"a port of its node":                                   {change: portOfItsNode, want: "may not take ports of their node"},
		"a port of its node, for an init container": {change: func(p *corev1.Pod) {
			portOfItsNode(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, plain().Spec.Containers
			p.Spec.InitContainers[0].Name = "init"
		}, want: "(init): leave hostPort out"},
		"a port of its own": {change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			test.change(pod)
			checkRefusal(t, makePod(t, jobController, namespace, pod.DeepCopy()), test.want)
			for kind, make := range makers {
				t.Run(kind, func(t *testing.T) { checkRefusal(t, make(t, user("ana"), namespace, pod.DeepCopy()), test.want) })
			}
		})
	}
	t.Run("what runs the cluster may", func(t *testing.T) {
		exempt := team(t, map[string]string{names.LabelPolicy: names.PolicyExempt})
		for _, namespace := range []string{exempt, metav1.NamespaceSystem} {
			pod := plain()
			both(apart(ofAllNamespaces), portOfItsNode)(pod)
			checkRefusal(t, makePod(t, jobController, namespace, pod), "")
		}
		pod := plain()
		apart(ofAllNamespaces)(pod)
		checkRefusal(t, makePod(t, masters, namespace, pod), "")
	})
}

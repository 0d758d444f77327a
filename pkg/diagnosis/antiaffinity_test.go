package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

const keptOutByOthers = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."

// keeping is a pod on a node that wants none with a label g8s.host/job in its zone.
func keeping(namespace, node string, change func(*corev1.PodAffinityTerm)) corev1.Pod {
	pod := fixture.Pod("x").Obj()
	pod.Namespace, pod.Spec.NodeName = namespace, node
	term := corev1.PodAffinityTerm{
		TopologyKey:       corev1.LabelTopologyZone,
		LabelSelector:     &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: names.LabelJob, Operator: metav1.LabelSelectorOpExists}}},
		NamespaceSelector: &metav1.LabelSelector{},
	}
	change(&term)
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	return *pod
}

// TestWhoseAntiAffinityItIs: the pod that keeps a job out is named, and the job is not advised to change what it does not have.
func TestWhoseAntiAffinityItIs(t *testing.T) {
	nothing := func(*corev1.PodAffinityTerm) {}
	named := func(t *corev1.PodAffinityTerm) { t.NamespaceSelector, t.Namespaces = nil, []string{"other", "team"} }
	elsewhere := func(t *corev1.PodAffinityTerm) { t.NamespaceSelector, t.Namespaces = nil, []string{"other"} }
	own := func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = nil }
	labelled := func(t *corev1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}
	otherApp := func(t *corev1.PodAffinityTerm) {
		t.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	}
	const unknown = "on the nodes, or near them, want no pod like this one"
	tests := map[string]struct {
		pods   []corev1.Pod
		change func(*Facts)
		says   string
		advice string
	}{
		"one of another namespace": {pods: []corev1.Pod{keeping("b", "n1", nothing)},
			says: "pod b/x holds an anti-affinity against this job on all nodes with topology.kubernetes.io/zone=z", advice: "ask the owner of namespace b, or the administrators"},
		"one that names the namespace":        {pods: []corev1.Pod{keeping("b", "n1", named)}, says: "pod b/x holds", advice: "ask the owner of namespace b"},
		"two of them":                         {pods: []corev1.Pod{keeping("b", "n1", nothing), keeping("c", "n2", named)}, says: "the first of 2 such pods", advice: "namespace b"},
		"others before one's own":             {pods: []corev1.Pod{keeping("team", "n1", own), keeping("b", "n1", nothing)}, says: "pod b/x holds", advice: "namespace b"},
		"one of the own namespace":            {pods: []corev1.Pod{keeping("team", "n1", own)}, says: "pod team/x holds", advice: "Nothing of this job has to change"},
		"one that names other namespaces":     {pods: []corev1.Pod{keeping("b", "n1", elsewhere)}, says: unknown},
		"one of another namespace, for that":  {pods: []corev1.Pod{keeping("b", "n1", own)}, says: unknown},
		"one that is against other pods":      {pods: []corev1.Pod{keeping("b", "n1", otherApp)}, says: unknown},
		"one on a node without the key":       {pods: []corev1.Pod{keeping("b", "n3", nothing)}, says: unknown},
		"one that selects namespaces, hidden": {pods: []corev1.Pod{keeping("b", "n1", labelled)}, says: "pod b/x holds", advice: "namespace b"},
		"one that selects other namespaces": {pods: []corev1.Pod{keeping("b", "n1", labelled)}, says: unknown, change: func(f *Facts) {
			f.Space = &snapshot.Snapshot{Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "team"}}}}
		}},
		"none any more": {says: unknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			zone := func(name string) *fixture.NodeBuilder {
				return node(name, "p", 8).Label(corev1.LabelTopologyZone, "z")
			}
			facts := factsOf(refused(fixture.Pod("p").GPUs(1).Pool("p"), keptOutByOthers), zone("n1"), zone("n2"), node("n3", "q", 8))
			facts.Cluster.Pods = test.pods
			if test.change != nil {
				test.change(&facts)
			}
			first := Diagnose(facts).Findings[0]
			if first.Cause != reason.AntiAffinityOfOthers || !strings.Contains(first.Text, test.says) {
				t.Fatalf("got %s: %s, want %q", first.Cause, first.Text, test.says)
			}
			advice := strings.Join(first.Advice, "; ")
			if !strings.Contains(advice, test.advice) || strings.Contains(advice, "preferred") {
				t.Errorf("got advice %q, want %q, and nothing of an affinity that the job does not have", advice, test.advice)
			}
			if test.advice != "" && (first.Nodes != 2 || len(first.Examples) != 2) {
				t.Errorf("got %d nodes, %v", first.Nodes, first.Examples)
			}
		})
	}
}

package hint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// TestAdmitsAsKubernetesDoes compares with what NodeAffinity asks, for selectors of all kinds.
func TestAdmitsAsKubernetesDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	operators := []corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	requirement := func(keys ...string) corev1.NodeSelectorRequirement {
		r := corev1.NodeSelectorRequirement{Key: pick(keys...), Operator: operators[random.IntN(len(operators))]}
		switch r.Operator {
		case "In", "NotIn":
			r.Values = []string{pick("a", "b", "7"), pick("a", "c", "9")}
		case "Gt", "Lt":
			r.Values = []string{fmt.Sprint(random.IntN(12))}
		}
		return r
	}
	admitted := 0
	for range 20_000 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick("n1", "n2"), Labels: map[string]string{}}}
		for _, key := range []string{"x", "y"} {
			if random.IntN(2) == 0 {
				node.Labels[key] = pick("a", "b", "5", "9")
			}
		}
		pod := &corev1.Pod{}
		if random.IntN(4) == 0 {
			pod.Spec.NodeSelector = map[string]string{pick("x", "y"): pick("a", "b")}
		}
		var terms []corev1.NodeSelectorTerm
		for range random.IntN(4) {
			var term corev1.NodeSelectorTerm
			for range random.IntN(3) {
				term.MatchExpressions = append(term.MatchExpressions, requirement("x", "y", "z"))
			}
			if random.IntN(4) == 0 {
				term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: operators[random.IntN(2)], Values: []string{"n1"}}}
			}
			terms = append(terms, term)
		}
		if random.IntN(4) > 0 {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
		want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if got := Admits(pod, node); err != nil || got != want {
			t.Fatalf("%+v %+v on %s with %v: admitted %v, Kubernetes says %v, %v", pod.Spec.NodeSelector, terms, node.Name, node.Labels, got, want, err)
		}
		if want {
			admitted++
		}
	}
	if admitted < 2000 || admitted > 18_000 {
		t.Errorf("%d of 20,000 are admitted: it compares little", admitted)
	}
}

// TestAdmitsByTaints that keep pods from a node, and a node that is closed.
func TestAdmitsByTaints(t *testing.T) {
	tolerates := []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	for name, tc := range map[string]struct {
		spec        corev1.NodeSpec
		tolerations []corev1.Toleration
		want        bool
	}{
		"no taint":           {want: true},
		"a taint":            {spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}}},
		"that it tolerates":  {spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}, tolerations: tolerates, want: true},
		"a taint of choice":  {spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}}, want: true},
		"a closed node":      {spec: corev1.NodeSpec{Unschedulable: true}, tolerations: tolerates},
		"closed, to a drain": {spec: corev1.NodeSpec{Unschedulable: true}, tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, want: true},
	} {
		if got := Admits(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.tolerations}}, &corev1.Node{Spec: tc.spec}); got != tc.want {
			t.Errorf("%s: admitted %v, want %v", name, got, tc.want)
		}
	}
}

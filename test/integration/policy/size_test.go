package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"

	"g8s.host/gpu-scheduler/test/bounds"
)

// TestLargePods: the expressions of a policy may cost so much and no more, or the API server refuses the pod. Pods far
// beyond what anybody writes must pass, and what they hide must be found.
func TestLargePods(t *testing.T) {
	restrict(t, map[string]string{"pools.gold-pool": "research", "pools.many": strings.Repeat("somebody-else ", 5_000)})
	namespace := team(t, nil)
	entries := func(count int) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for i := range count {
				env(fmt.Sprintf("VARIABLE_%d", i), "value")(pod)
			}
		}
	}
	pools := func(terms, values int) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			required(corev1.NodeSelectorOpIn)(pod)
			selector := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			selector.NodeSelectorTerms = nil
			for i := range terms {
				var all []string
				for j := range values {
					all = append(all, fmt.Sprintf("pool-%d-%d", i, j))
				}
				selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: names.LabelPool, Operator: corev1.NodeSelectorOpIn, Values: all}},
				})
			}
		}
	}
	containers := func(pod *corev1.Pod) {
		for i := range 200 {
			container := *pod.Spec.Containers[0].DeepCopy()
			container.Name = fmt.Sprintf("more-%d", i)
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
	volumes := func(path string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for range 500 {
				mounts("/datasets/" + strings.Repeat("a", 200))(pod)
			}
			mounts(path)(pod)
		}
	}
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"10,000 variables":                        {entries(10_000), ""},
		"10,000 variables, and all cards":         {both(entries(10_000), env("NVIDIA_VISIBLE_DEVICES", "all")), "the scheduler chooses the cards"},
		"200 containers":                          {containers, ""},
		"200 containers that see all cards":       {both(env("NVIDIA_VISIBLE_DEVICES", "all"), containers), "the scheduler chooses the cards"},
		"200 containers with 50 variables each":   {both(entries(50), containers), ""},
		"500 paths of the node":                   {volumes("/datasets"), ""},
		"500 paths of the node, and its root":     {volumes("/"), "may not mount /"},
		"30 terms of 30 pools":                    {pools(30, 30), ""},
		"30 terms of 30 pools, and a closed one":  {both(pools(30, 30), labelled("gold-pool")), "pool gold-pool is not"},
		"1,000 terms of 100 pools are too many":   {pools(1000, 100), "ValidatingAdmissionPolicy"},
		"a variable of 500 KiB":                   {env("LARGE", strings.Repeat("x", 500<<10)), ""},
		"a pool with a list of 5,000 namespaces":  {of("many"), "pool many is not"},
		"a path with line breaks":                 {mounts("/\n\n"), "may not mount"},
		"a path of 4 KiB, too long for a message": {mounts("/" + strings.Repeat("x", 6<<10)), "jobs may not mount such paths of the node"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			test.change(pod)
			began := time.Now()
			checkRefusal(t, makePod(t, jobController, namespace, pod), test.want)
			if took := time.Since(began); took > bounds.Of(10*time.Second) {
				t.Errorf("it took %v", took)
			}
			t.Logf("%v", time.Since(began))
		})
	}
}

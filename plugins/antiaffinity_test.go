package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestWhoWasKeptOutIsTriedAgain: kube-scheduler's own hint wakes none of those whom the anti-affinity of another pod kept from nodes.
func TestWhoWasKeptOutIsTriedAgain(t *testing.T) {
	term := func(change func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
		out := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "victim"}}}
		change(&out)
		return out
	}
	own := func(*corev1.PodAffinityTerm) {}
	tests := map[string]struct {
		terms     []corev1.PodAffinityTerm
		namespace string
		node      string
		stays     bool
		want      int
	}{
		"one of the own namespace":      {terms: []corev1.PodAffinityTerm{term(own)}, namespace: "", node: "a", want: 1},
		"one of another namespace":      {terms: []corev1.PodAffinityTerm{term(own)}, namespace: "other", node: "a", want: 0},
		"one against all namespaces":    {terms: []corev1.PodAffinityTerm{term(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} })}, namespace: "other", node: "a", want: 1},
		"one against another namespace": {terms: []corev1.PodAffinityTerm{term(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"third"} })}, namespace: "other", node: "a", want: 0},
		"one against other pods": {terms: []corev1.PodAffinityTerm{term(func(t *corev1.PodAffinityTerm) {
			t.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		})}, namespace: "", node: "a", want: 0},
		"the second of two terms": {terms: []corev1.PodAffinityTerm{term(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"third"} }), term(own)}, namespace: "", node: "a", want: 1},
		"one without":             {namespace: "", node: "a", want: 0},
		"one that had no node":    {terms: []corev1.PodAffinityTerm{term(own)}, namespace: "", want: 0},
		"one that stays":          {terms: []corev1.PodAffinityTerm{term(own)}, namespace: "", node: "a", stays: true, want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, gpuNode("a", "pcie"))
			plugins.Wrap(c.scheduler, plugins.Options{})
			q := c.scheduler.SchedulingQueue
			victim := pod("w", "1", "4").SchedulerName(names.SchedulerName).UID("w").Label("app", "victim").Obj()
			upstream.Add(q, victim)
			upstream.TurnAway(t, q, 1, "InterPodAffinity")

			keeper := pod("keeper", "0", "4").UID("keeper").Node(tc.node).Obj()
			keeper.Namespace = tc.namespace
			if tc.terms != nil {
				keeper.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: tc.terms}}
			}
			if tc.namespace == "" {
				keeper.Namespace = victim.Namespace
			}
			if tc.stays {
				changed := keeper.DeepCopy()
				changed.Annotations = map[string]string{"a": "b"}
				c.update(keeper, changed)
			} else {
				q.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, keeper, nil, nil)
			}
			if got := 1 - len(q.UnschedulablePods()); got != tc.want {
				t.Errorf("%d pods are tried again, want %d", got, tc.want)
			}
		})
	}
}

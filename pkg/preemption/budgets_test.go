package preemption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
)

// TestBudgetsCountEachPodOnce: those that left a moment ago, which no budget has counted, and those that a budget has counted already.
func TestBudgetsCountEachPodOnce(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	budget.Status.DisruptionsAllowed = 2
	budget.Status.DisruptedPods = map[string]metav1.Time{"counted": {}}
	if err := store.Add(budget); err != nil {
		t.Fatal(err)
	}
	pod := func(namespace, name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}}
	}
	one, two, three := pod("ns", "1", "a"), pod("ns", "2", "a"), pod("ns", "3", "a")
	for name, tc := range map[string]struct {
		left, leave []*corev1.Pod
		want        bool
	}{
		"as many as it allows":                {leave: []*corev1.Pod{one, two}, want: true},
		"one more":                            {leave: []*corev1.Pod{one, two, three}},
		"one more, that is counted already":   {leave: []*corev1.Pod{one, two, pod("ns", "counted", "a")}, want: true},
		"one more, of another namespace":      {leave: []*corev1.Pod{one, two, pod("other", "3", "a")}, want: true},
		"one more, that it does not select":   {leave: []*corev1.Pod{one, two, pod("ns", "3", "b")}, want: true},
		"two, and one has left a moment ago":  {left: []*corev1.Pod{three}, leave: []*corev1.Pod{one, two}},
		"one, and one has left a moment ago":  {left: []*corev1.Pod{three}, leave: []*corev1.Pod{one}, want: true},
		"one, and others have left elsewhere": {left: []*corev1.Pod{pod("other", "3", "a"), pod("other", "4", "a")}, leave: []*corev1.Pod{one}, want: true},
	} {
		if got := NewBudgets(policylisters.NewPodDisruptionBudgetLister(store), tc.left).AllowsEviction(tc.leave); got != tc.want {
			t.Errorf("%s: allowed %t, want %t", name, got, tc.want)
		}
	}
	if !NewBudgets(nil, nil).AllowsEviction([]*corev1.Pod{one, two, three}) {
		t.Error("without budgets not all may leave")
	}
}

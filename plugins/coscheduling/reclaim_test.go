package coscheduling

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// alone makes a pod with 8 GPUs of a namespace, in no gang, that evicts nobody by its priority.
func (l *lab) alone(namespace, name string) *corev1.Pod {
	l.Helper()
	return l.member(name, inNamespace(namespace), neverPreempts, func(pod *corev1.Pod) { delete(pod.Labels, names.LabelPodGroup) })
}

// protects has a PodDisruptionBudget of a namespace keep all of its pods with a label.
func (l *lab) protects(namespace string, apps ...string) {
	l.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, app := range apps {
		l.must(indexer.Add(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}))
	}
	l.budgets = policylisters.NewPodDisruptionBudgetLister(indexer)
}

// dies has a node be not ready, as one that is cut off.
func (l *lab) dies(node int) {
	l.Helper()
	dead := l.infos[node].Node().DeepCopy()
	dead.Spec.Taints = append(dead.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
	var all []*corev1.Pod
	for _, on := range l.infos[node].GetPods() {
		all = append(all, on.GetPod())
	}
	l.infos[node] = nodeInfo(dead, all...)
}

// goes has a pod that was told so be on its way out.
func (l *lab) toldToGo(pods []*corev1.Pod, told []string, ago time.Duration) {
	l.Helper()
	for _, pod := range pods {
		if slices.Contains(told, pod.Name) {
			pod.DeletionTimestamp = &metav1.Time{Time: l.now().Add(-ago)}
		}
	}
}

// nominates has everybody know where a pod goes.
func (l *lab) nominates(pod *corev1.Pod, node string) {
	l.Helper()
	l.must(l.pods.Delete(pod)) // it is found by where it was to go
	pod.Status.NominatedNodeName = node
	info, err := framework.NewPodInfo(pod)
	l.must(err)
	if l.nominated == nil {
		l.nominated = map[string][]fwk.PodInfo{}
	}
	l.nominated[node] = append(l.nominated[node], info)
	l.must(l.pods.Add(pod))
}

// TestWhoDoesNotLeaveForAGuarantee has two nodes full of pods that borrow what namespace ns is guaranteed.
func TestWhoDoesNotLeaveForAGuarantee(t *testing.T) {
	shared := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.ResourceSharedGPU: resource.MustParse("8")}
		pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
	}
	ends := func(l *lab, begun, takes time.Duration, why string) {
		for _, pod := range l.everybody() {
			if pod.Name == "new" {
				pod.DeletionTimestamp = ptr.To(metav1.NewTime(l.now().Add(takes - begun)))
				pod.DeletionGracePeriodSeconds = ptr.To(int64(takes.Seconds()))
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why}}
			}
		}
	}
	tests := map[string]struct {
		change  []func(*corev1.Pod) // of both
		then    func(*lab)
		evicted []string
		told    string
	}{
		"the younger loses less":                    {evicted: []string{"new"}},
		"a budget forbids it":                       {then: func(l *lab) { l.protects("theirs", "new") }, evicted: []string{"old"}},
		"budgets forbid it of all":                  {then: func(l *lab) { l.protects("theirs", "new", "old") }, told: string(reason.QuotaBudgeted.Text)},
		"its node is dead":                          {then: func(l *lab) { l.dies(1) }, evicted: []string{"old"}},
		"all nodes are dead":                        {then: func(l *lab) { l.dies(0); l.dies(1) }},
		"it has been leaving a dead node for long":  {then: func(l *lab) { l.dies(1); l.toldToGo(l.everybody(), []string{"new"}, 5*time.Minute) }, evicted: []string{"old"}},
		"it has been leaving for long":              {then: func(l *lab) { l.toldToGo(l.everybody(), []string{"new"}, 5*time.Minute) }, evicted: []string{"old"}},
		"it has hours to end, and is deleted now":   {then: func(l *lab) { ends(l, 0, 10*time.Hour, "") }},
		"it has hours to end, and takes them":       {then: func(l *lab) { ends(l, 10*time.Minute, 10*time.Hour, "") }, evicted: []string{"old"}},
		"it takes them as others had it leave":      {then: func(l *lab) { ends(l, 10*time.Minute, 10*time.Hour, corev1.PodReasonPreemptionByScheduler) }},
		"it has as long as there is":                {then: func(l *lab) { ends(l, 10*time.Minute, math.MaxInt64-24*time.Hour, "") }, evicted: []string{"old"}},
		"one that leaves already is enough":         {then: func(l *lab) { l.toldToGo(l.everybody(), []string{"new"}, 0) }},
		"shares of GPUs do not count, and are none": {change: []func(*corev1.Pod){shared}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			l.running(0, "old", 60, append(tc.change, inNamespace("theirs"))...)
			l.running(1, "new", 10, append(tc.change, inNamespace("theirs"))...)
			if tc.then != nil {
				tc.then(l)
			}
			pod := l.alone("ns", "mine")
			l.share(quotaOf("ns", 8, 0))
			_, evicted := l.postFilter(framework.NewCycleState(), pod)
			if diff := cmp.Diff(tc.evicted, evicted); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
			if strings.HasPrefix(l.told, "gang:") || !strings.Contains(l.told, tc.told) {
				t.Errorf("a pod alone is told %q, want %q", l.told, tc.told)
			}
		})
	}
}

// everybody are the pods on nodes.
func (l *lab) everybody() (out []*corev1.Pod) {
	for _, info := range l.infos {
		for _, on := range info.GetPods() {
			out = append(out, on.GetPod())
		}
	}
	return out
}

// TestTwoLendersAtOnceGetTwoPlaces: who leaves for the first is not told to for the second, nor does that one get the place of the first.
func TestTwoLendersAtOnceGetTwoPlaces(t *testing.T) {
	l := newLab(t, 3)
	l.answers()
	for node, name := range []string{"x", "y", "z"} {
		l.running(node, name, 10*node, inNamespace("theirs"))
	}
	first, second := l.alone("ns", "first"), l.alone("other", "second")
	l.share(quotaOf("ns", 8, 0), quotaOf("other", 8, 0))
	place, evicted := l.postFilter(framework.NewCycleState(), first)
	if len(evicted) != 1 || place == "" {
		t.Fatalf("for the first %v leave, and it goes to %q", evicted, place)
	}
	l.nominates(first, place)
	l.toldToGo(l.everybody(), evicted, 0)
	l.share(quotaOf("ns", 8, 0), quotaOf("other", 8, 0))
	elsewhere, more := l.postFilter(framework.NewCycleState(), second)
	if len(more) != 1 || slices.Contains(evicted, more[0]) || elsewhere == "" || elsewhere == place {
		t.Errorf("for the second %v leave %q, and for the first %v left %q", more, elsewhere, evicted, place)
	}
}

// TestWhatComesOfAReclaimThatIsUnderWay when the quota changes, or another scheduler becomes the leader: nobody else leaves for it.
func TestWhatComesOfAReclaimThatIsUnderWay(t *testing.T) {
	tests := map[string]func(l *lab){
		"nothing changes":          func(*lab) {},
		"its min is smaller":       func(l *lab) { l.share(quotaOf("ns", 4, 0)) },
		"its max is smaller":       func(l *lab) { l.share(quotaOf("ns", 4, 4)) },
		"it is deleted":            func(l *lab) { l.share() },
		"another one takes it all": func(l *lab) { l.share(quotaOf("ns", 8, 0), quotaOf("theirs", 16, 0)) },
		"another leader": func(l *lab) {
			l.gangs, l.departures, l.preemptions = l.newGangs(), &preemption.Departures{}, &preemption.Notices{}
			l.share(quotaOf("ns", 8, 0))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := time.Now()
			l.now = func() time.Time { return now }
			l.running(0, "old", 60, inNamespace("theirs"))
			l.running(1, "new", 10, inNamespace("theirs"))
			pod := l.alone("ns", "mine")
			l.share(quotaOf("ns", 8, 0))
			place, evicted := l.postFilter(framework.NewCycleState(), pod)
			if len(evicted) != 1 {
				t.Fatalf("%v leave", evicted)
			}
			l.nominates(pod, place)
			l.toldToGo(l.everybody(), evicted, 0)
			now = now.Add(5 * time.Second) // beyond what it takes to be seen
			change(l)
			if _, more := l.postFilter(framework.NewCycleState(), pod); len(more) > 0 {
				t.Errorf("%v leave, too", more)
			}
		})
	}
}

// TestAPodAloneIsToldInWordsOfQuotas why nobody leaves for it.
func TestAPodAloneIsToldInWordsOfQuotas(t *testing.T) {
	alone, _, _ := singlePodGang(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
	if said := reason.KeptOutText(alone.isSinglePod(), "its volume is elsewhere"); !strings.HasPrefix(said, "quota: ") {
		t.Errorf("it is told %q", said)
	}
	if said := reason.KeptOutText(gang{}.isSinglePod(), "its volume is elsewhere"); !strings.HasPrefix(said, "gang: ") {
		t.Errorf("a gang is told %q", said)
	}
}

package coscheduling

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// quotaOf guarantees a namespace GPUs, and bounds them where most is not 0.
func quotaOf(namespace string, least, most int64) *names.GPUQuota {
	q := &names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: names.GPUQuotaSpec{Namespaces: []string{namespace}, Pool: names.DefaultPool, Min: least}}
	if most > 0 {
		q.Spec.Max = &most
	}
	return q
}

// share has the plugin know quotas, and who holds what of them now.
func (l *lab) share(quotas ...*names.GPUQuota) {
	l.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	l.must(follow.SeedInformer(factory, quotas...))
	for _, object := range l.pods.List() {
		l.must(factory.Core().V1().Pods().Informer().GetIndexer().Add(object))
	}
	for _, info := range l.infos {
		l.must(factory.Core().V1().Nodes().Informer().GetIndexer().Add(info.Node()))
	}
	l.quotas = follow.New(nil)
	l.must(l.quotas.StartWatching(knowing{factory: factory}))
	l.quotas.GatherBy(l.evictionUnit)
}

func inNamespace(namespace string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = namespace }
}

// agedMinutes has a pod be so many minutes old.
func agedMinutes(minutes int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Duration(minutes) * time.Minute))
	}
}

func neverPreempts(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }

// wantsCores has a pod ask for all the cores of a node, and no GPUs.
func wantsCores(pod *corev1.Pod) {
	cores := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("128")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cores, Limits: cores}
}

// TestKubernetesPreemptionLeavesTheGuaranteedAlone, whatever the preemptor wants.
func TestKubernetesPreemptionLeavesTheGuaranteedAlone(t *testing.T) {
	for name, wants := range map[string]func(*corev1.Pod){"GPUs": func(*corev1.Pod) {}, "cores": wantsCores} {
		l := newLab(t, 2)
		guaranteed := l.running(0, "old", 60, inNamespace("theirs"), agedMinutes(60), ofPriority(-1))
		borrows := l.running(1, "new", 60, inNamespace("theirs"), agedMinutes(10), ofPriority(-1))
		by := l.member("mine", wants)
		l.share(quotaOf("theirs", 8, 0))
		if l.MayEvict(guaranteed, by) || !l.MayEvict(borrows, by) {
			t.Errorf("who wants %s may evict one that is guaranteed its GPUs: %v; that borrows: %v", name, l.MayEvict(guaranteed, by), l.MayEvict(borrows, by))
		}
		by.Namespace = "theirs"
		if !l.MayEvict(guaranteed, by) {
			t.Errorf("who wants %s and shares the quota may not go by priority", name)
		}
	}
}

// TestWhoLeavesByAQuota has two nodes full of pods of other namespaces, of higher priority than the gang of ns.
func TestWhoLeavesByAQuota(t *testing.T) {
	borrowed := func(l *lab) {
		l.running(0, "old", 60, inNamespace("theirs"), agedMinutes(60), ofPriority(5))
		l.running(1, "new", 10, inNamespace("theirs"), agedMinutes(10), ofPriority(5))
	}
	ofGang := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "h" }
	tests := map[string]struct {
		members int
		quotas  []*names.GPUQuota
		runs    func(*lab)
		change  func(*corev1.Pod)
		evicted []string
		told    string
		// gangsOnly says that kube-scheduler's own preemption does it for a single pod.
		gangsOnly bool
	}{
		"both, which only borrow":                            {members: 2, quotas: []*names.GPUQuota{quotaOf("ns", 16, 0)}, evicted: []string{"new", "old"}},
		"who evicts nobody by priority gets its own back":    {members: 2, quotas: []*names.GPUQuota{quotaOf("ns", 16, 0)}, change: neverPreempts, evicted: []string{"new", "old"}},
		"the one that came last, as the other is guaranteed": {members: 1, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0), quotaOf("theirs", 8, 0)}, evicted: []string{"new"}},
		"nobody, as all are guaranteed":                      {members: 1, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0), quotaOf("theirs", 16, 0)}},
		"nobody, as it would have more than its min":         {members: 2, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0)}},
		"nobody, as it would have more than its max":         {members: 2, quotas: []*names.GPUQuota{quotaOf("ns", 8, 12)}, told: reason.QuotaTooSmall.Text.FormatText("ns", 12, 16)},
		"nobody, without a quota":                            {members: 1},
		"all of a gang": {members: 1, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0), quotaOf("theirs", 8, 0)}, evicted: []string{"new", "old"},
			runs: func(l *lab) {
				l.must(l.groups.PodGroups.GetIndexer().Add(&podgroup.Group{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: "h"}, MinMember: 2}))
				l.running(0, "old", 60, inNamespace("theirs"), ofGang)
				l.running(1, "new", 60, inNamespace("theirs"), ofGang)
			}},
		"nobody of lower priority who is guaranteed their GPUs": {members: 1, quotas: []*names.GPUQuota{quotaOf("theirs", 16, 0)}, runs: func(l *lab) {
			l.running(0, "old", 60, inNamespace("theirs"), ofPriority(-1))
			l.running(1, "new", 60, inNamespace("theirs"), ofPriority(-1))
		}},
		"nobody who is guaranteed their GPUs for cores alone": {members: 1, quotas: []*names.GPUQuota{quotaOf("theirs", 16, 0)}, change: wantsCores, runs: func(l *lab) {
			l.running(0, "old", 60, inNamespace("theirs"), ofPriority(-1))
			l.running(1, "new", 60, inNamespace("theirs"), ofPriority(-1))
		}},
		"who is guaranteed nothing leaves for cores": {members: 1, quotas: []*names.GPUQuota{quotaOf("theirs", 8, 0)}, change: wantsCores, evicted: []string{"new"}, gangsOnly: true,
			runs: func(l *lab) {
				l.running(0, "old", 60, inNamespace("theirs"), agedMinutes(60), ofPriority(-1))
				l.running(1, "new", 60, inNamespace("theirs"), agedMinutes(10), ofPriority(-1))
			}},
		"who is guaranteed them leaves for a service of the cluster": {members: 1, quotas: []*names.GPUQuota{quotaOf("theirs", 16, 0)}, change: ofPriority(2_000_000_000),
			evicted: []string{"new"}, gangsOnly: true},
		"a service of the cluster does not leave": {members: 1, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0)}, evicted: []string{"new"}, runs: func(l *lab) {
			l.running(0, "old", 60, inNamespace("theirs"), ofPriority(2_000_000_000))
			l.running(1, "new", 60, inNamespace("theirs"))
		}},
		"who has not run for its min-runtime stays": {members: 1, quotas: []*names.GPUQuota{quotaOf("ns", 8, 0)}, told: "quota: pods that borrow its GPUs have not run for their min-runtime",
			runs: func(l *lab) {
				l.must(l.pools.AddPool(metav1.ObjectMeta{Name: names.DefaultPool}, names.PoolDefaults{MinRuntime: "2h"}))
				borrowed(l)
			}},
	}
	for name, tc := range tests {
		for _, alone := range []bool{false, true} {
			if alone && (tc.members > 1 || tc.gangsOnly) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				l := newLab(t, 2)
				l.answers()
				if tc.runs == nil {
					tc.runs = borrowed
				}
				tc.runs(l)
				l.group("g", map[string]any{"minMember": int64(tc.members)})
				var first *corev1.Pod
				for i := range tc.members {
					pod := l.member("m"+string(rune('0'+i)), agedMinutes(0))
					if alone {
						delete(pod.Labels, names.LabelPodGroup)
					}
					if tc.change != nil {
						tc.change(pod)
					}
					first = pod
				}
				l.share(tc.quotas...)
				var cs fwk.CycleState = framework.NewCycleState()
				why := ""
				if !alone {
					cs, _, why = l.aim(first)
				}
				node, evicted := l.postFilter(cs, first)
				if diff := cmp.Diff(tc.evicted, evicted); diff != "" {
					t.Errorf("evicted (-want +got):\n%s", diff)
				}
				if (node != "") != (len(tc.evicted) > 0) {
					t.Errorf("it is nominated for %q", node)
				}
				if told := why + l.told; !strings.Contains(told, tc.told) {
					t.Errorf("it is told %q, want %q", told, tc.told)
				}
			})
		}
	}
}

// TestAGangBeginsWithinItsQuota: as a whole, so that the first member takes no GPUs where the last would get none.
func TestAGangBeginsWithinItsQuota(t *testing.T) {
	l := newLab(t, 3)
	l.group("g", map[string]any{"minMember": int64(2)})
	first := l.member("m0")
	l.member("m1")
	l.running(0, "other", 10)
	l.share(quotaOf("ns", 0, 16))
	if why, _ := l.try(first); why != reason.QuotaUsed.Text.FormatText("8 of 16", "ns", 16) {
		t.Errorf("with 8 of 16 in use it is told %q", why)
	}
	l.share(quotaOf("ns", 0, 24))
	if why, waits := l.try(first); why != "" || !waits {
		t.Errorf("with 8 of 24 in use it is told %q", why)
	}
}

// TestAGangTakesNodesOfTypesThatItMayHave, of which there is room for all of it.
func TestAGangTakesNodesOfTypesThatItMayHave(t *testing.T) {
	l := newLab(t, 2)
	typed := quotaOf("ns", 0, 8)
	typed.Spec.GPUType = "T4"
	l.group("g", map[string]any{"minMember": int64(2)})
	first := l.member("m0")
	l.member("m1")
	l.share(typed)
	if why, _ := l.try(first); why != reason.GangHasRoomForSome.Text.FormatText(0, 2) {
		t.Errorf("where all nodes are of a type that it may have 8 of, it is told %q", why)
	}
	for range 2 {
		l.infos = append(l.infos, nodeInfo(fixture.Node("a"+string(rune('0'+len(l.infos)))).GPUs(8, "A100").Obj()))
	}
	if why, waits := l.try(first); why != "" || !waits {
		t.Errorf("with two nodes of another type it is told %q", why)
	}
}

// TestAPodAloneIsForgotten when it is on a node, or gone.
func TestAPodAloneIsForgotten(t *testing.T) {
	l := newLab(t, 1)
	l.answers()
	l.running(0, "theirs", 10, inNamespace("theirs"))
	pod := l.member("p", func(pod *corev1.Pod) { delete(pod.Labels, names.LabelPodGroup) })
	gone := l.member("q", func(pod *corev1.Pod) { delete(pod.Labels, names.LabelPodGroup) })
	l.share(quotaOf("ns", 8, 0))
	for _, one := range []*corev1.Pod{pod, gone} {
		if _, evicted := l.postFilter(framework.NewCycleState(), one); one == pod && len(evicted) != 1 {
			t.Fatalf("%v leave, want one", evicted)
		}
	}
	if len(l.gangs.states) == 0 {
		t.Fatal("nothing is kept of them")
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n0"
	l.podChanged(bound)
	l.must(l.pods.Delete(gone))
	l.podGone(gone)
	if len(l.gangs.states) != 0 {
		t.Errorf("%d are kept", len(l.gangs.states))
	}
}

// TestWhoIsToldByPriorityStaysWhenBorrowersLeave: kube-scheduler's own preemption has told one of lower priority, who has time to save its
// work, and what is borrowed goes back at once.
func TestWhoIsToldByPriorityStaysWhenBorrowersLeave(t *testing.T) {
	l := newLab(t, 2)
	l.obeys()
	told := l.running(0, "told", 60, polite("1m"), ofPriority(-1))
	l.running(1, "borrows", 10, inNamespace("theirs"), ofPriority(5))
	pod := l.member("mine", func(pod *corev1.Pod) { pod.Labels = nil })
	l.share(quotaOf("ns", 16, 0))
	if stays, err := l.NotifyVictim(t.Context(), pod, told, []*corev1.Pod{told}); err != nil || !stays || len(l.noticed()) != 1 {
		t.Fatalf("it is not told to leave by and by: %v, %v", stays, err)
	}
	if _, evicted := l.postFilter(framework.NewCycleState(), pod); !slices.Equal(evicted, []string{"borrows"}) {
		t.Fatalf("%v leave", evicted)
	}
	if still := l.noticed(); len(still) > 0 {
		t.Errorf("%v are to leave, too", still)
	}
}

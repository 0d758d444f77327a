package coscheduling

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestRoomIsKeptForNominatedPods: Filter has them on their nodes, so that a gang that counted their room would begin and
// give up, again and again.
func TestRoomIsKeptForNominatedPods(t *testing.T) {
	const none = "gang: there is room for 1 of 2 members now"
	nominated := func(change ...func(*corev1.Pod)) *corev1.Pod {
		pod := fixture.Pod("preemptor").GPUs(1).Obj()
		pod.Namespace = "ns"
		for _, change := range change {
			change(pod)
		}
		return pod
	}
	priority := func(p int32) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }
	tests := map[string]struct {
		pods map[string]*corev1.Pod
		want string
	}{
		"nobody is nominated":                     {},
		"a pod of the same priority":              {pods: map[string]*corev1.Pod{"n0": nominated(priority(5))}, want: none},
		"a pod of a higher one":                   {pods: map[string]*corev1.Pod{"n0": nominated(priority(6))}, want: none},
		"a pod of a lower one, which has to wait": {pods: map[string]*corev1.Pod{"n0": nominated(priority(4))}},
		"one for a node that is not there":        {pods: map[string]*corev1.Pod{"x": nominated(priority(6))}},
		"one that asks for no GPU":                {pods: map[string]*corev1.Pod{"n0": fixture.Pod("cpu").Obj()}},
		"a member itself": {pods: map[string]*corev1.Pod{"n0": nominated(priority(5), func(p *corev1.Pod) {
			p.Labels = map[string]string{names.LabelPodGroup: "g"}
			ownedBy("job")(p)
		})}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.group("g", map[string]any{"minMember": int64(2)})
			l.nominated = map[string][]fwk.PodInfo{}
			for node, pod := range tc.pods {
				l.nominated[node] = []fwk.PodInfo{podInfo(t, pod)}
				pod.Status.NominatedNodeName = node
				l.must(l.pods.Add(pod))
			}
			first := l.member("a", priority(5))
			l.member("b", priority(5))
			reason, _ := l.try(first)
			if tc.want == "" && reason != "" || !strings.HasPrefix(reason, tc.want) {
				t.Errorf("told %q, want %q", reason, tc.want)
			}
			l.nominated = nil
			if reason, waits := l.try(first); reason != "" || !waits {
				t.Errorf("when nobody is nominated any more: told %q", reason)
			}
		})
	}
}

// TestANominatedPodThatGoesLeavesRoom, though it was on no node.
func TestANominatedPodThatGoesLeavesRoom(t *testing.T) {
	l := newLab(t, 1)
	l.group("g", map[string]any{"minMember": int64(1)})
	member, gone := l.member("a"), fixture.Pod("preemptor").GPUs(1).Obj()
	for node, want := range map[string]fwk.QueueingHint{"n0": fwk.Queue, "": fwk.QueueSkip} {
		gone.Status.NominatedNodeName = node
		if got, err := l.afterPodChange(klog.Background(), member, gone, nil); got != want || err != nil {
			t.Errorf("nominated for %q: hint %v, error %v", node, got, err)
		}
	}
}

// TestMembersAreTriedWhenTheirGangBacksOffNoMore: nothing in the cluster tells of that.
func TestMembersAreTriedWhenTheirGangBacksOffNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.args.backoff = 10 * time.Second
		l.group("g", map[string]any{"minMember": int64(2)})
		a, b := l.member("a"), l.member("b")
		l.failGang(gangOf(a, l.groups.GetGroup(mustGroup(a))))
		time.Sleep(4 * time.Second)
		for _, pod := range []*corev1.Pod{a, b, a} {
			if reason, _ := l.try(pod); reason != reasonBackoff {
				t.Fatalf("told %q", reason)
			}
		}
		time.Sleep(5900 * time.Millisecond)
		synctest.Wait()
		if early := l.tried(); len(early) > 0 {
			t.Errorf("%v are tried too early", early)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if tried := l.tried(); !slices.Equal(tried, []string{"ns/a", "ns/b"}) {
			t.Errorf("%v are tried, want each once", tried)
		}
		if reason, waits := l.try(a); reason != "" || !waits {
			t.Errorf("told %q after the backoff", reason)
		}
	})
}

// TestADeploymentThatRollsIsOneGang: its new pods come one by one, each when an old one has left.
func TestADeploymentThatRollsIsOneGang(t *testing.T) {
	of := func(name, hash string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Labels["pod-template-hash"] = hash
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "uid-of-" + pod.UID, Controller: ptr.To(true)}}
		}
	}
	tests := map[string]struct {
		old, new func(*corev1.Pod)
		joins    bool
	}{
		"two ReplicaSets of one Deployment":         {of("web-5d9", "5d9"), of("web-7f2", "7f2"), true},
		"ReplicaSets of two Deployments":            {of("web-5d9", "5d9"), of("api-7f2", "7f2"), false},
		"a ReplicaSet whose name says nothing":      {of("web-5d9", "5d9"), of("web", "7f2"), false},
		"a name that ends as the hash without dash": {of("web-5d9", "5d9"), of("web7f2", "7f2"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 3)
			l.group("g", map[string]any{"minMember": int64(2)})
			l.member("old-1", tc.old, boundTo("n0"))
			l.member("old-2", tc.old, boundTo("n1"))
			coming := l.member("new", tc.new)
			_, status := l.PreFilter(t.Context(), framework.NewCycleState(), coming, l.infos)
			if status.IsSkip() != tc.joins {
				t.Errorf("PreFilter: %v", status)
			}
		})
	}
}

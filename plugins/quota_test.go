package plugins_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpuquota"
	"g8s.host/gpu-scheduler/test/upstream"
)

// quotaOf guarantees a namespace so many GPUs of the default pool, or of a type of it, and lets it have some more.
func quotaOf(namespace, gpuType string, least, most int64) *names.GPUQuota {
	return &names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: namespace + gpuType}, Spec: names.GPUQuotaSpec{
		Namespaces: []string{namespace}, Pool: names.DefaultPool, GPUType: gpuType, Min: least, Max: &most,
	}}
}

// sharing is the shipped scheduler with two nodes of eight A100s, and quotas.
func sharing(t *testing.T, quotas ...*names.GPUQuota) *cluster {
	t.Helper()
	c := newCluster(t, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	must(t, follow.SeedInformer(c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory(), quotas...))
	return c
}

// known puts a pod in the scheduler's informer, too, and on a node if there is one.
func (c *cluster) known(wrapped *st.PodWrapper, node string) *corev1.Pod {
	c.t.Helper()
	if node != "" {
		c.put(wrapped, node)
		wrapped.Node(node)
	}
	pods := c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	if err := pods.Add(wrapped.Obj()); err != nil {
		c.t.Fatal(err)
	}
	return wrapped.Obj()
}

func TestWhoMayHaveMoreGPUs(t *testing.T) {
	tests := map[string]struct {
		quota *names.GPUQuota
		want  string // what is said, "" where there is a place
	}{
		"there is enough":           {quotaOf("default", "", 0, 8), ""},
		"a GPU too many":            {quotaOf("default", "", 0, 7), "quota: 4 of 7 GPUs of GPUQuota default are in use, and it asks for 4 more"},
		"it never fits":             {quotaOf("default", "", 0, 3), "quota: GPUQuota default allows 3 GPUs, and it asks for 4"},
		"another namespace":         {quotaOf("other", "", 0, 0), ""},
		"another type":              {quotaOf("default", "none", 0, 0), ""},
		"too many of all the types": {quotaOf("default", "A100-80G", 0, 7), "2 node(s) have a GPU type of which a GPUQuota allows the namespace no more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := sharing(t, tc.quota)
			c.known(pod("there", "1", "4"), "a")
			_, err := c.try(pod("p", "1", "4").Obj())
			if said := ""; err != nil {
				if said = err.Error(); tc.want == "" || !strings.Contains(said, tc.want) {
					t.Errorf("it says %q, want %q", said, tc.want)
				}
			} else if tc.want != "" {
				t.Errorf("it has a place, want %q", tc.want)
			}
			if _, err := c.try(pod("cpu", "1", "").Obj()); err != nil {
				t.Errorf("a pod without GPUs: %v", err)
			}
		})
	}
}

// TestWhoIsWokenIsNotTurnedAwayForWhatIsGone: the account of quotas hears of a pod in its own time. Nothing wakes a second time who is tried
// before that.
func TestWhoIsWokenIsNotTurnedAwayForWhatIsGone(t *testing.T) {
	c := sharing(t, quotaOf("default", "", 0, 8))
	profile := c.scheduler.Profiles[names.SchedulerName]
	for _, plugin := range profile.EnqueueExtensions() {
		if quotas, ok := plugin.(*gpuquota.Plugin); ok {
			quotas.Quotas().UseManualUpdates() // and nobody tells it
		}
	}
	there := c.known(pod("there", "1", "8"), "a")
	if _, err := c.try(pod("p", "1", "8").Obj()); err == nil {
		t.Fatal("16 of 8 GPUs are given out")
	}
	must(t, profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(there))
	must(t, c.scheduler.Cache.RemovePod(klog.Background(), there))
	c.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, there, nil, nil)
	if _, err := c.try(pod("p", "1", "8").Obj()); err != nil {
		t.Errorf("it is woken, and turned away: %v", err)
	}
}

// TestWhatTheSchedulerHasChosenCounts before the API server knows, and does not when it comes to nothing.
func TestWhatTheSchedulerHasChosenCounts(t *testing.T) {
	c := sharing(t, quotaOf("default", "", 0, 8))
	first := c.known(pod("first", "1", "8"), "")
	profile := c.scheduler.Profiles[names.SchedulerName]
	state, node, err := c.attempt(first)
	must(t, err)
	if status := profile.RunReservePluginsReserve(t.Context(), state, first, node); !status.IsSuccess() {
		t.Fatal(status)
	}
	second := pod("second", "1", "8").Obj()
	if _, err := c.try(second); err == nil {
		t.Error("16 of 8 GPUs are given out")
	}
	profile.RunReservePluginsUnreserve(t.Context(), state, first, node)
	if _, err := c.try(second); err != nil {
		t.Errorf("after the first has lost its place: %v", err)
	}
}

// TestNobodyBorrowsWhatOthersLeaveFor whom it is guaranteed to, whatever the priorities.
func TestNobodyBorrowsWhatOthersLeaveFor(t *testing.T) {
	tests := map[string]struct {
		quotas []*names.GPUQuota
		want   string
	}{
		"without quotas the higher priority has it": {want: "a"},
		"it is guaranteed":                          {quotas: []*names.GPUQuota{quotaOf("lender", "", 8, 8)}, want: ""},
		"it is guaranteed to both":                  {quotas: []*names.GPUQuota{quotaOf("lender", "", 8, 8), quotaOf("default", "", 8, 8)}, want: "a"},
		"more than is guaranteed":                   {quotas: []*names.GPUQuota{quotaOf("lender", "", 7, 8)}, want: "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := sharing(t, tc.quotas...)
			c.put(pod("there", "1", "8").Namespace("third"), "b")
			nominated := c.known(pod("lent", "1", "8").Namespace("lender").NominatedNodeName("a"), "")
			upstream.Nominate(t, c.scheduler.SchedulingQueue, nominated)
			got, err := c.try(pod("p", "1", "8").Priority(9).Obj())
			if got != tc.want {
				t.Errorf("it goes to %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// TestPreemptionLeavesThoseAloneWhoAreGuaranteedTheirGPUs, and takes them from who borrows.
func TestPreemptionLeavesThoseAloneWhoAreGuaranteedTheirGPUs(t *testing.T) {
	c := sharing(t, quotaOf("owner", "", 8, 16))
	c.known(pod("old", "1", "8").Namespace("owner").Priority(-1).CreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour))), "a")
	c.known(pod("new", "1", "8").Namespace("owner").Priority(-1).CreationTimestamp(metav1.Now()), "b")
	for range 3 {
		if got := c.preempt(pod("p", "1", "8").Priority(1).Obj()); got != "b" {
			t.Errorf("it is nominated for %q, want the node of the one that borrows", got)
		}
	}
}

// TestNobodyElseLeavesWhileBorrowersDo: kube-scheduler's own preemption comes first, and waits of itself for those of lower priority alone.
func TestNobodyElseLeavesWhileBorrowersDo(t *testing.T) {
	c := sharing(t, quotaOf("default", "", 8, 16))
	c.known(pod("borrows", "1", "8").Namespace("third").Priority(9).Terminating().Condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler), "a")
	c.known(pod("low", "1", "8").Namespace("third").Priority(-1), "b")
	if got := c.preempt(pod("p", "1", "8").Priority(1).NominatedNodeName("a").Obj()); got != "a" {
		t.Errorf("it is nominated for %q, want the node that one leaves for it", got)
	}
	if got := c.preempt(pod("q", "1", "8").Priority(1).Obj()); got != "b" {
		t.Errorf("one that nobody leaves for is nominated for %q, want the node of a lower priority", got)
	}
}

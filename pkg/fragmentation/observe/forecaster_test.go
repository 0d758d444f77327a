package observe

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// snapshots is a handle whose snapshot can be replaced.
type snapshots struct {
	fwk.Handle
	informers informers.SharedInformerFactory
	now       fwk.SharedLister
}

func (s *snapshots) SnapshotSharedLister() fwk.SharedLister                 { return s.now }
func (s *snapshots) SharedInformerFactory() informers.SharedInformerFactory { return s.informers }

// TestAForecastKnowsPoolsThatCameSince: without that, the first pods of a new pool would all be placed as if its nodes
// were worth nothing, until the next forecast is due.
func TestAForecastKnowsPoolsThatCameSince(t *testing.T) {
	node := func(name, pool string) *corev1.Node {
		made := sharedNode(name, "8")
		made.Labels[names.LabelPool] = pool
		return made
	}
	handle := &snapshots{informers: informers.NewSharedInformerFactory(nil, 0)}
	pods := handle.informers.Core().V1().Pods().Informer().GetStore()
	nodes := []*corev1.Node{node("a0", "a"), node("a1", "a")}
	var f Forecaster
	ledger := devices.NewCache()
	next := func(attempt int64, pool string) *fragmentation.Forecasts {
		t.Helper()
		made, err := f.NextForecasts(handle, ledger, Occasion{Attempt: attempt, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	add := func(name string) {
		t.Helper()
		if err := pods.Add(podOf(name, "a", "1")); err != nil {
			t.Fatal(err)
		}
	}
	add("first")
	handle.now = cache.NewSnapshot(nil, nodes)
	first := next(1, "a")
	add("second")
	if next(2, "a") != first {
		t.Error("another forecast is made for one more pod")
	}
	handle.now = cache.NewSnapshot(nil, append(nodes, node("b0", "b")))
	second := next(3, "a")
	if second.ForPool("b") == nil {
		t.Error("the forecast knows nothing of a pool whose first node has just come")
	}
	if second.ForPool("a") != first.ForPool("a") {
		t.Error("a node of another pool changed what is expected in the first")
	}
	bare := node("c0", "c")
	bare.Status = corev1.NodeStatus{}
	nodes = append(nodes, node("b0", "b"), bare)
	handle.now = cache.NewSnapshot(nil, nodes)
	if next(4, "c").ForPool("c") != nil {
		t.Error("the forecast knows a pool whose only node has no cards")
	}
	infos, err := handle.now.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	infos[slices.IndexFunc(infos, func(n fwk.NodeInfo) bool { return n.Node().Name == "c0" })].SetNode(node("c0", "c"))
	if next(5, "a").ForPool("c") != nil || next(6, "c").ForPool("c") == nil {
		t.Error("the cards of a node that had none are not known as soon as a pod asks for them")
	}
	if third := next(17, "a"); third.ForPool("a") == first.ForPool("a") {
		t.Error("a forecast that is due knows nothing of the pod that came")
	}
}

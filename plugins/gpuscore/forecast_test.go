package gpuscore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
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
	pod := func(name string) *corev1.Pod {
		return st.MakePod().Name(name).UID(name).Label(names.LabelPool, "a").
			Req(map[corev1.ResourceName]string{names.ResourceGPU: "1"}).Obj()
	}
	handle := &snapshots{informers: informers.NewSharedInformerFactory(nil, 0)}
	pods := handle.informers.Core().V1().Pods().Informer().GetStore()
	nodes := []*corev1.Node{node("a0", "a"), node("a1", "a")}
	var f forecaster
	next := func(attempt int64) *forecast {
		t.Helper()
		made, err := f.next(handle, devices.NewLedger(), attempt)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	add := func(name string) {
		t.Helper()
		if err := pods.Add(pod(name)); err != nil {
			t.Fatal(err)
		}
	}
	add("first")
	handle.now = cache.NewSnapshot(nil, nodes)
	first := next(1)
	add("second")
	if next(2) != first {
		t.Error("a forecast is made anew for one more pod")
	}
	handle.now = cache.NewSnapshot(nil, append(nodes, node("b0", "b")))
	second := next(3)
	if second.of("b") == nil {
		t.Error("the forecast knows nothing of a pool whose first node has just come")
	}
	if second.of("a") != first.of("a") {
		t.Error("a node of another pool changed what is expected in the first")
	}
	if third := next(17); third.of("a") == first.of("a") {
		t.Error("a forecast that is due knows nothing of the pod that came")
	}
}

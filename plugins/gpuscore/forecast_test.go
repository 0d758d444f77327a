package gpuscore

import (
	"maps"
	"slices"
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
	ledger := devices.NewLedger()
	next := func(attempt int64, pool string) *forecast {
		t.Helper()
		made, err := f.next(handle, ledger, occasion{attempt, pool})
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
	first := next(1, "a")
	add("second")
	if next(2, "a") != first {
		t.Error("a forecast is made anew for one more pod")
	}
	handle.now = cache.NewSnapshot(nil, append(nodes, node("b0", "b")))
	second := next(3, "a")
	if second.of("b") == nil {
		t.Error("the forecast knows nothing of a pool whose first node has just come")
	}
	if second.of("a") != first.of("a") {
		t.Error("a node of another pool changed what is expected in the first")
	}
	bare := node("c0", "c")
	bare.Status = corev1.NodeStatus{}
	nodes = append(nodes, node("b0", "b"), bare)
	handle.now = cache.NewSnapshot(nil, nodes)
	if next(4, "c").of("c") != nil {
		t.Error("the forecast knows a pool whose only node has no cards")
	}
	infos, err := handle.now.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	infos[slices.IndexFunc(infos, func(n fwk.NodeInfo) bool { return n.Node().Name == "c0" })].SetNode(node("c0", "c"))
	if next(5, "a").of("c") != nil || next(6, "c").of("c") == nil {
		t.Error("the cards of a node that had none are not known as soon as a pod asks for them")
	}
	if third := next(17, "a"); third.of("a") == first.of("a") {
		t.Error("a forecast that is due knows nothing of the pod that came")
	}
}

func TestAnOutlookHoldsUntilItsPoolChanges(t *testing.T) {
	there := func() (map[string]*pool, map[string]*population) {
		return map[string]*pool{"a": {name: "a"}, "b": {name: "b"}},
			map[string]*population{"a": {all: 32, changes: 40, rate: 0.5}, "b": {all: 5000, changes: 6000, rate: 0.5}}
	}
	tests := map[string]struct {
		change func(map[string]*pool, map[string]*population)
		want   []string // the pools that are looked at again
	}{
		"nothing":                             {func(map[string]*pool, map[string]*population) {}, nil},
		"a pod of 32":                         {func(_ map[string]*pool, pods map[string]*population) { pods["a"].changes++ }, nil},
		"two of 32":                           {func(_ map[string]*pool, pods map[string]*population) { pods["a"].changes += 2 }, []string{"a"}},
		"255 of 5,000":                        {func(_ map[string]*pool, pods map[string]*population) { pods["b"].changes += 255 }, nil},
		"256 of 5,000":                        {func(_ map[string]*pool, pods map[string]*population) { pods["b"].changes += 256 }, []string{"b"}},
		"pods leave no longer":                {func(_ map[string]*pool, pods map[string]*population) { pods["b"].rate = 0.4 }, []string{"b"}},
		"a node":                              {func(nodes map[string]*pool, _ map[string]*population) { nodes["a"] = &pool{name: "a"} }, []string{"a"}},
		"the first pods came":                 {func(_ map[string]*pool, pods map[string]*population) { pods["a"] = &population{} }, []string{"a"}},
		"the last pods have left":             {func(_ map[string]*pool, pods map[string]*population) { delete(pods, "a") }, []string{"a"}},
		"the last node has left, for another": {func(nodes map[string]*pool, _ map[string]*population) { delete(nodes, "a"); nodes["c"] = &pool{} }, []string{"c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, pods := there()
			first := (*forecast)(nil).next(nodes, pods)
			tc.change(nodes, pods)
			second := first.next(nodes, pods)
			for _, pool := range slices.Sorted(maps.Keys(nodes)) {
				again := second.generation(pool) == 2
				if again != slices.Contains(tc.want, pool) || again == (second.pools[pool] == first.pools[pool]) {
					t.Errorf("pool %s is looked at again: %t", pool, again)
				}
			}
		})
	}
}

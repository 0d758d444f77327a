package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

// counted is a lister that counts who asks.
type counted struct {
	fwk.NodeInfoLister
	asked int
}

func (c *counted) Get(name string) (fwk.NodeInfo, error) {
	c.asked++
	return c.NodeInfoLister.Get(name)
}

// TestTheNewestNodeIsKnown changes nodes at random, now and then all of them or the list, and compares with a look at all.
func TestTheNewestNodeIsKnown(t *testing.T) {
	const count = 40
	r, changes, n := rand.New(rand.NewPCG(2, 3)), &cycle.Changes{}, &placement.LatestGeneration{}
	var nodes []fwk.NodeInfo
	lister := &counted{}
	list := func() {
		var objects []*corev1.Node
		for i := range count {
			objects = append(objects, st.MakeNode().Name(fmt.Sprint("n", i)).Obj())
		}
		lister.NodeInfoLister = cache.NewSnapshot(nil, objects).NodeInfos()
		var err error
		if nodes, err = lister.List(); err != nil {
			t.Fatal(err)
		}
	}
	list()
	changes.RecordSnapshot()
	looks := 0
	for i := range 500 {
		for range []int{0, 1, 3, count}[r.IntN(4)] {
			node := nodes[r.IntN(count)]
			changes.RecordNode(node.Node().Name)
			node.SetNode(node.Node())
		}
		changes.RecordNode("gone")
		if r.IntN(50) == 0 {
			list()
		}
		changes.RecordSnapshot()
		before := lister.asked
		if got, want := n.UpdateGeneration(nodes, lister, changes), placement.MaxGeneration(nodes); got != want {
			t.Fatalf("step %d: the latest is %d, want %d", i, got, want)
		}
		if lister.asked > before {
			looks++
		}
		if other := (&placement.LatestGeneration{}).UpdateGeneration(nodes, lister, nil); other != placement.MaxGeneration(nodes) {
			t.Fatalf("step %d: %d where no change is known", i, other)
		}
	}
	if looks < 200 || lister.asked > 500*count/placement.FewChanged {
		t.Errorf("%d times it looked at those that had changed, %d in all", looks, lister.asked)
	}
}

package gpufilter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTheVersionOfAnIndex follows single nodes.
func TestTheVersionOfAnIndex(t *testing.T) {
	index, err := newNodeIndex(newHandle(t, twoPools...).SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	version := index.membership.version.Load
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	node := func(name, pool string) *corev1.Node { return gpuNode(name, pool, "T4") }
	first := version()
	for _, step := range []struct {
		why  string
		do   func()
		same bool
	}{
		{"a heartbeat", func() { do(index.store.Update(node("a3", "a"))) }, true},
		{"another one", func() { do(index.store.Update(node("a3", "a"))) }, true},
		{"a node moves", func() { do(index.store.Update(node("a3", "b"))) }, false},
		{"and tells that it is well", func() { do(index.store.Update(node("a3", "b"))) }, true},
		{"a node leaves", func() { do(index.store.Delete(node("a3", "b"))) }, false},
		{"a node comes", func() { do(index.store.Add(node("a4", "a"))) }, false},
		{"nothing happens", func() {}, true},
	} {
		before := version()
		step.do()
		if now := version(); (now == before) != step.same {
			t.Errorf("%s: version %d after %d, the same wanted: %t", step.why, now, before, step.same)
		}
	}
	if version() == first {
		t.Error("after all that the version is the first one")
	}
}

// TestWhatIsRememberedOfTheIndexIsRight has nodes come, go, move and tell that they are well at random, and compares what is
// remembered with the index each time.
func TestWhatIsRememberedOfTheIndexIsRight(t *testing.T) {
	c := cacheOf(t, 0)
	r := rand.New(rand.NewPCG(1, 1))
	pools := []string{"a", "b"}
	for i := range 5000 {
		node := gpuNode(fmt.Sprint("n", r.IntN(6)), pools[r.IntN(2)], "T4")
		var err error
		switch r.IntN(4) {
		case 0:
			err = c.index.store.Delete(node)
		case 1:
			var list []any
			for _, kept := range c.index.store.List() {
				if r.IntN(3) > 0 {
					list = append(list, kept)
				}
			}
			err = c.index.store.Replace(append(list, gpuNode("n9", pools[r.IntN(2)], "T4")), "")
		default:
			err = c.index.store.Update(node)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			continue // some changes are seen together
		}
		pool := pools[r.IntN(2)]
		want, err := c.index.candidateNames(pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.candidatesFor(pool, nil); err != nil || !got.Names.Equal(want) {
			t.Fatalf("step %d: pool %s is remembered to have %v, %v, and has %v", i, pool, got.Names, err, want)
		}
	}
}

package gpufilter

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/devices"
)

func TestProfilesShareTheIndex(t *testing.T) {
	handle, indices := newHandle(t, twoPools...), nodeIndices{}
	for range 2 {
		plugin, err := newProfilePlugin(t.Context(), &configv1.GPUFilterArgs{}, handle, Dependencies{DeviceCache: devices.NewCache()}, &indices)
		if err != nil {
			t.Fatalf("building the plugin: %v", err)
		}
		found, err := plugin.(*Plugin).nodes.candidateNames("a", []string{"T4"})
		if err != nil || !found.Equal(sets.New("a3")) {
			t.Errorf("candidates = %v, %v, want a3", found, err)
		}
	}
}

func TestIndexFollowsLabels(t *testing.T) {
	handle := newHandle(t, twoPools...)
	nodes, err := newNodeIndex(handle.SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.store.Update(gpuNode("a1", "b", "A100-80G")); err != nil {
		t.Fatal(err)
	}
	for pool, want := range map[string]int{"a": 2, "b": 2} {
		if found, err := nodes.candidateNames(pool, nil); err != nil || found.Len() != want {
			t.Errorf("pool %s has %v, %v, want %d nodes", pool, found, err, want)
		}
	}
}

func TestListedNamesTheFirstAndCountsTheRest(t *testing.T) {
	got := listValues("pools", []string{"g", "f", "e", "d", "c", "b", "a"})
	if want := "pools: a, b, c, d, e and 2 more"; got != want {
		t.Errorf("listed = %q, want %q", got, want)
	}
}

func TestCandidatesAreTheSameWhileTheirNodesAre(t *testing.T) {
	index, err := newNodeIndex(newHandle(t, twoPools...).SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	c := candidateCache{index: index}
	first, err := c.candidatesFor("a", nil)
	if err != nil || first.Names.Len() != 3 {
		t.Fatalf("candidates %v, %v, want the 3 nodes of the pool", first, err)
	}
	heartbeat := gpuNode("a1", "a", "A100-80G")
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	for name, step := range map[string]struct {
		node *corev1.Node
		same bool
	}{
		"a heartbeat":           {node: heartbeat, same: true},
		"a node of another one": {node: gpuNode("b9", "b", "T4"), same: true},
	} {
		if err := index.store.Update(step.node); err != nil {
			t.Fatal(err)
		}
		if got, err := c.candidatesFor("a", nil); err != nil || (got == first) != step.same {
			t.Errorf("%s: candidates %v, %v, the same as before: %v", name, got, err, got == first)
		}
	}
	if err := index.store.Update(gpuNode("a1", "b", "A100-80G")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.candidatesFor("a", nil); err != nil || got.Names.Has("a1") || !first.Names.Has("a1") || !got.Replaces(first) {
		t.Errorf("candidates %v, %v, want others in their place without the node that moved", got, err)
	}
}

// TestTypesInAnotherOrderHaveTheSameCandidates: there are thousands of orders of seven types.
func TestTypesInAnotherOrderHaveTheSameCandidates(t *testing.T) {
	c := cacheOf(t, 3)
	first, err := c.candidatesFor("p", []string{"T4", "H100", "A100"})
	if err != nil || first.Names.Len() != 3 {
		t.Fatalf("candidates %v, %v, want the 3 nodes of a type", first, err)
	}
	for _, types := range [][]string{{"A100", "H100", "T4"}, {"H100", "A100", "T4", "H100"}} {
		if got, err := c.candidatesFor("p", types); err != nil || got != first {
			t.Errorf("types %v: other candidates, %v", types, err)
		}
	}
	if got, err := c.candidatesFor("p", []string{"H100", "A100"}); err != nil || got == first {
		t.Errorf("fewer types: the same candidates, %v", err)
	}
}

// TestCandidatesOfOneUserAreBounded has a user name every set of types that there could be, while others ask for theirs.
func TestCandidatesOfOneUserAreBounded(t *testing.T) {
	const nodes, sets = 5000, 500
	c := cacheOf(t, nodes)
	others, err := c.candidatesFor("p", []string{"H100"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range sets {
		for _, types := range [][]string{{"H100", fmt.Sprintf("X%d", i)}, {fmt.Sprintf("a-type-that-no-node-has-%d", i)}} {
			if _, err := c.candidatesFor("p", types); err != nil {
				t.Fatal(err)
			}
		}
		if i%10 == 0 {
			if got, err := c.candidatesFor("p", []string{"H100"}); err != nil || got != others {
				t.Fatalf("after %d sets of types the candidates of the others are found again, %v", i, err)
			}
		}
	}
	held := 0
	for _, half := range []map[string]cachedCandidates{c.recent, c.past} {
		for key, known := range half {
			held += known.candidates.Names.Len() + len(key)/32
		}
	}
	if held > maxWeight || held < maxWeight/4 {
		t.Errorf("holds %d names of nodes, want at most %d, and not none", held, maxWeight)
	}
}

// TestCandidatesBeyondTheBoundAreServed, and remembered while nothing else is asked for.
func TestCandidatesBeyondTheBoundAreServed(t *testing.T) {
	c := cacheOf(t, maxWeight/2+1)
	for range 2 {
		if got, err := c.candidatesFor("p", nil); err != nil || got.Names.Len() != maxWeight/2+1 {
			t.Fatalf("candidates of %d nodes, %v", got.Names.Len(), err)
		}
	}
}

// cacheOf has nodes of one pool and one type, H100.
func cacheOf(t *testing.T, nodes int) *candidateCache {
	t.Helper()
	index, err := newNodeIndex(newHandle(t).SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if err := index.store.Add(gpuNode(fmt.Sprintf("n%06d", i), "p", "H100")); err != nil {
			t.Fatal(err)
		}
	}
	return &candidateCache{index: index}
}

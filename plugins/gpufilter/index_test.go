package gpufilter

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/devices"
)

func TestProfilesShareTheIndex(t *testing.T) {
	handle := newHandle(t, twoPools...)
	for range 2 {
		plugin, err := forProfile(t.Context(), &configv1.GPUFilterArgs{}, handle, devices.NewLedger())
		if err != nil {
			t.Fatalf("building the plugin: %v", err)
		}
		found, err := plugin.(*Plugin).nodes.candidates("a", []string{"T4"})
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
		if found, err := nodes.candidates(pool, nil); err != nil || found.Len() != want {
			t.Errorf("pool %s has %v, %v, want %d nodes", pool, found, err, want)
		}
	}
}

func TestListedNamesTheFirstAndCountsTheRest(t *testing.T) {
	got := listed("pools", []string{"g", "f", "e", "d", "c", "b", "a"})
	if want := "pools: a, b, c, d, e and 2 more"; got != want {
		t.Errorf("listed = %q, want %q", got, want)
	}
}

package process

import (
	"path/filepath"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load"
	"g8s.host/gpu-scheduler/test/bounds"
)

// TestOursIsNoSlowerThanHalfOfStock runs both schedulers once as processes and fails on a loss far outside of noise.
// `make bench` measures in earnest.
func TestOursIsNoSlowerThanHalfOfStock(t *testing.T) {
	bounds.SkipInShort(t)
	const pods = 600
	lab, err := NewLab(t.Context(), load.Fleet{Nodes: 500, Pools: 4}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	stock := Scheduler{Name: "stock", Config: filepath.FromSlash("../testdata/stock.yaml")}
	results := map[string]Result{}
	for _, scheduler := range []Scheduler{{Name: "ours"}, stock} {
		result, err := lab.Backlog(t.Context(), scheduler, pods)
		if err != nil {
			t.Fatalf("measuring %s: %v", scheduler.Name, err)
		}
		t.Logf("%s: %+v", scheduler.Name, result)
		if result.FirstBinding <= 0 || result.FirstBinding > time.Minute {
			t.Errorf("%s takes %s to begin", scheduler.Name, result.FirstBinding)
		}
		results[scheduler.Name] = result
	}
	ours, theirs := results["ours"], results["stock"]
	if ours.CPUPerPod > 2*theirs.CPUPerPod {
		t.Errorf("a pod takes %s of CPU, more than twice the %s of the stock scheduler", ours.CPUPerPod, theirs.CPUPerPod)
	}
	if ours.WritesPerPod > 3 {
		t.Errorf("%.1f API writes a pod, want at most 3", ours.WritesPerPod)
	}

	flowed, err := lab.Flow(t.Context(), Scheduler{Name: "ours"}, Load{Rate: 20, Duration: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("20 pods a second: %+v", flowed)
	if flowed.Pods < 50 || flowed.Flushed > 0 {
		t.Errorf("%d pods were bound, of which %d waited for the periodic flush; want some 60, and none", flowed.Pods, flowed.Flushed)
	}
}

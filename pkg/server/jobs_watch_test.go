package server

import (
	"fmt"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/feed"
)

// TestAWatchThatGoesOnHasEveryDeletion resumes behind more changes than the feed gives at once: jobs that are gone now are known to the client until it
// has the change that says so.
func TestAWatchThatGoesOnHasEveryDeletion(t *testing.T) {
	const all = 1000
	watcher := &jobWatcher{server: &Server{cache: newClusterCache()}, shown: map[string]bool{}, resuming: true}
	changed := watcher.server.cache.jobs
	var jobs []inventory.Job
	for i := range all {
		jobs = append(jobs, inventory.Job{Namespace: "team", Kind: "training", Name: fmt.Sprint("j", i)})
	}
	changed.Publish(jobs)
	watcher.seq = all
	changed.Publish(jobs[:1])
	deleted := 0
	for range all {
		changes, _, _ := changed.ChangesSince(watcher.seq)
		for i := range changes {
			watcher.seq = changes[i].Seq
			if watcher.classifyChange(&changes[i], true) == feed.Deleted {
				deleted++
			}
		}
		if watcher.resuming {
			watcher.assumeShown()
		}
	}
	if deleted != all-1 {
		t.Errorf("%d deletions are sent, of %d", deleted, all-1)
	}
	if watcher.resuming || len(watcher.shown) != 1 {
		t.Errorf("still resuming: %v, and the client knows %d jobs, of 1", watcher.resuming, len(watcher.shown))
	}
}

package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// TestFollowersLearnFromMemory: once how a job is, then of each change of it and of no others, and nothing is asked of the
// cluster for a job that the memory knows.
func TestFollowersLearnFromMemory(t *testing.T) {
	s := &Server{cache: newClusterCache()}
	show := func(jobs ...inventory.Job) {
		s.cache.setView(inventory.State{Cluster: inventory.Cluster{Jobs: jobs}}, time.Now())
	}
	train := inventory.Job{Namespace: "team", Name: "train", Status: inventory.StatusPending}
	query := inventory.JobQuery{Namespace: "team", Name: "train"}
	cluster := inventory.NewReader(nil)
	if s.jobSource(query, cluster) != cluster {
		t.Fatal("an empty memory is asked")
	}
	show(train)
	memory := s.jobSource(query, cluster)
	if found, err := memory.Job(t.Context(), "team", "train"); err != nil || found.Status != inventory.StatusPending {
		t.Fatalf("found %v, error %v", found, err)
	}
	told := make(chan []inventory.Job, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- memory.WatchJobs(ctx, query, func(jobs []inventory.Job) { told <- jobs })
	}()
	next := func(want ...inventory.Status) {
		t.Helper()
		select {
		case jobs := <-told:
			var got []inventory.Status
			for i := range jobs {
				got = append(got, jobs[i].Status)
			}
			if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
				t.Errorf("told of %v, want %v", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is told")
		}
	}
	next(inventory.StatusPending)
	other := train
	other.Namespace = "others"
	show(train, other)
	time.Sleep(2 * followInterval)
	train.Status = inventory.StatusRunning
	show(train, other)
	next(inventory.StatusRunning)
	show(other)
	next()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if len(told) > 0 {
		t.Errorf("told of %v besides", <-told)
	}
}

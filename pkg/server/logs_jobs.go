package server

import (
	"context"
	"reflect"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
)

// followInterval is how often a log follower checks the job while anything in the cluster changes.
const followInterval = 250 * time.Millisecond

// cachedJobs serves the state of jobs to log followers from the cache. A watch per follower would overload the API server when a client opens
// hundreds of streams. The followers' rights are checked before and during the stream.
type cachedJobs struct{ cache *clusterCache }

// jobSource returns the source of a job's state: the cache, or the cluster where the cache does not have the job yet.
func (s *Server) jobSource(query inventory.JobQuery, cluster joblogs.Jobs) joblogs.Jobs {
	memory := cachedJobs{s.cache}
	if len(memory.jobsFor(query)) == 0 {
		return cluster
	}
	return memory
}

func (m cachedJobs) jobsFor(query inventory.JobQuery) []inventory.Job {
	now := m.cache.current.Load()
	if now == nil {
		return nil
	}
	var out []inventory.Job
	for i := range now.Jobs {
		if job := &now.Jobs[i]; job.Namespace == query.Namespace && job.Name == query.Name {
			out = append(out, *job)
		}
	}
	return out
}

// Job implements [joblogs.Jobs] like [inventory.Reader.Job].
func (m cachedJobs) Job(_ context.Context, namespace, name string) (inventory.Job, error) {
	query := inventory.JobQuery{Namespace: namespace, Name: name, Foreign: true}
	return query.OnlyJob(m.jobsFor(query))
}

// WatchJobs implements [joblogs.Jobs] like [inventory.Reader.WatchJobs].
func (m cachedJobs) WatchJobs(ctx context.Context, query inventory.JobQuery, changed func([]inventory.Job)) error {
	var told []inventory.Job
	for first := true; ; first = false {
		renewed := m.cache.nextRenewal()
		if now := m.jobsFor(query); first || !reflect.DeepEqual(told, now) {
			told = now
			changed(now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renewed:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followInterval):
		}
	}
}

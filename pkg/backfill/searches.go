package backfill

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// RenewInterval is how often the earliest start of a waiting job is computed again.
	RenewInterval = 30 * time.Second
	// firstSuspectTime is how long a job gets no start reservation after it had room for all members and another plugin rejected it. It doubles
	// each time, up to maxSuspectTime. The obstacle may be permanent, and the job would be first in line each time, holding nodes that no other
	// job can reserve.
	firstSuspectTime, maxSuspectTime = 10 * time.Minute, 24 * time.Hour
	// searchShare bounds the time spent on searches for jobs without a start reservation: one part in so many.
	searchShare = 50
)

// StartSearches records when earliest starts were computed.
type StartSearches struct {
	mu sync.Mutex
	// next is when a job may be searched again. poolRestUntil is until when no search is done for unreserved jobs in the queue of a pool.
	next          map[string]time.Time
	poolRestUntil map[string]time.Time
	// suspectTimes are the last suspect times of jobs.
	suspectTimes map[string]time.Duration
	// watchedJobs are the jobs whose reservations are renewed by a timer.
	watchedJobs sets.Set[string]
}

// maxSearches is how many jobs, and how many pools, are remembered.
const maxSearches = 10_000

// MaySearch reports whether a search for a job is allowed now.
func (s *StartSearches) MaySearch(job, pool string, promised bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.next[job]) && (promised || !now.Before(s.poolRestUntil[pool]))
}

// RecordSearch records a search that took from one time to another.
func (s *StartSearches) RecordSearch(job, pool string, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setDeadline(&s.next, job, from.Add(RenewInterval), to)
	setDeadline(&s.poolRestUntil, pool, to.Add(searchShare*to.Sub(from)), to)
}

// SuspectJob denies a job start reservations for a while.
func (s *StartSearches) SuspectJob(job string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.suspectTimes) >= maxSearches || s.suspectTimes == nil {
		s.suspectTimes = map[string]time.Duration{}
	}
	s.suspectTimes[job] = min(max(firstSuspectTime, 2*s.suspectTimes[job]), maxSuspectTime)
	setDeadline(&s.next, job, now.Add(s.suspectTimes[job]), now)
}

// setDeadline stores a time, and drops expired entries when there are too many.
func setDeadline(times *map[string]time.Time, key string, until, now time.Time) {
	if len(*times) >= maxSearches {
		maps.DeleteFunc(*times, func(_ string, next time.Time) bool { return next.Before(now) })
	}
	if *times == nil || len(*times) >= maxSearches {
		*times = map[string]time.Time{}
	}
	(*times)[key] = until
}

// StartWatching reports whether the reservation of a job has no renewal timer yet, and claims it. StopWatching ends that.
func (s *StartSearches) StartWatching(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchedJobs.Has(job) {
		return false
	}
	if s.watchedJobs == nil {
		s.watchedJobs = sets.New[string]()
	}
	s.watchedJobs.Insert(job)
	return true
}

func (s *StartSearches) StopWatching(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchedJobs.Delete(job)
}

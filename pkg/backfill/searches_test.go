package backfill

import (
	"fmt"
	"testing"
	"time"
)

// TestStartSearches take a share of the time, except for jobs that have a reservation.
func TestStartSearches(t *testing.T) {
	var s StartSearches
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ended := began.Add(time.Second)
	s.RecordSearch("a", "pool", began, ended)
	for name, tc := range map[string]struct {
		job, pool string
		promised  bool
		after     time.Duration
		want      bool
	}{
		"the same job":                           {job: "a", pool: "pool", promised: true, after: RenewInterval - 1},
		"the same job later":                     {job: "a", pool: "pool", promised: true, after: RenewInterval, want: true},
		"another job of the pool":                {job: "b", pool: "pool", after: searchShare * time.Second},
		"another job of the pool later":          {job: "b", pool: "pool", after: (1 + searchShare) * time.Second, want: true},
		"another job of the pool, which has one": {job: "b", pool: "pool", promised: true, want: true},
		"a job of another pool":                  {job: "b", pool: "other", want: true},
	} {
		if got := s.MaySearch(tc.job, tc.pool, tc.promised, began.Add(tc.after)); got != tc.want {
			t.Errorf("%s: it may search: %t, want %t", name, got, tc.want)
		}
	}
}

// TestASuspectJobWaitsLongerEachTime, and no more jobs are remembered than some.
func TestASuspectJobWaitsLongerEachTime(t *testing.T) {
	var s StartSearches
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for want := firstSuspectTime; want < maxSuspectTime; want *= 2 {
		s.SuspectJob("a", now)
		if s.MaySearch("a", "pool", true, now.Add(want-1)) || !s.MaySearch("a", "pool", true, now.Add(want)) {
			t.Errorf("it is not suspect for %s", want)
		}
	}
	for i := range 2 * maxSearches {
		s.SuspectJob(fmt.Sprint(i), now)
	}
	if len(s.next) > maxSearches || len(s.suspectTimes) > maxSearches {
		t.Errorf("%d and %d jobs are remembered", len(s.next), len(s.suspectTimes))
	}
	if !s.StartWatching("a") || s.StartWatching("a") {
		t.Error("a timer is claimed twice, or never")
	}
	if s.StopWatching("a"); !s.StartWatching("a") {
		t.Error("a timer is not claimed again")
	}
}

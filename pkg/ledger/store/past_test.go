package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// TestDeletedJobsAreBounded: of each namespace the last are remembered, and no job that is there is forgotten.
func TestDeletedJobsAreBounded(t *testing.T) {
	s := opened(t)
	put := func(namespace string, number int, gone bool) {
		t.Helper()
		job := ledger.Job{UID: fmt.Sprint(namespace, number), Namespace: namespace, Name: "j", Created: hour(float64(number)), Status: "Succeeded"}
		job.Finished = job.Created.Add(time.Minute)
		if gone {
			job.Deleted = job.Created.Add(time.Hour)
		}
		if err := s.Update(func(tx *Tx) error { tx.mostPast = 3; return tx.PutJob(&job) }); err != nil {
			t.Fatal(err)
		}
	}
	put("a", 0, false)
	put("b", 0, true)
	for number := 1; number <= 9; number++ {
		put("a", number, false)
		put("a", number, true)
		put("a", number, true) // seen once more
	}
	known := func() (uids []string) {
		t.Helper()
		found, _, err := s.FinishedJobs(JobQuery{From: hour(0), To: hour(99), Most: 99})
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range found {
			uids = append(uids, job.UID)
		}
		return uids
	}
	if diff := cmp.Diff([]string{"a9", "a8", "a7", "b0", "a0"}, known()); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	for _, gone := range []string{"a1", "a6"} {
		if job, held, err := s.Job(Namespace{Name: "a"}, gone); job != nil || held != nil || err != nil {
			t.Errorf("of %s there is %v, %v, error %v", gone, job, held, err)
		}
	}
	if uid, err := s.JobAt("a", "j", hour(6.5)); err != nil || uid != "a0" {
		t.Errorf("the job of the name is %q, error %v", uid, err)
	}
	if _, err := s.Trim(hour(8.5)); err != nil { // a7, a8 and b0 have finished before
		t.Fatal(err)
	}
	put("a", 10, true)
	put("a", 11, true)
	if diff := cmp.Diff([]string{"a11", "a10", "a9"}, known()); diff != "" {
		t.Errorf("after some were too old (-want +got):\n%s", diff)
	}
	err := s.db.View(func(tx *bbolt.Tx) error {
		if got := countOf(tx, "a"); got != 3 || countOf(tx, "b") != 0 {
			return errors.New(fmt.Sprint("counted are ", got, " and ", countOf(tx, "b")))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

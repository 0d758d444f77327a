package store

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// half says of each holding that it was measured for half an hour, and busy for half of that.
func half(*ledger.Holding) ledger.Load {
	return ledger.Load{Measured: time.Hour / 2, Busy: time.Hour / 4}
}

func finishedJob(t *testing.T, s *Store, uid string, created, ended float64) {
	t.Helper()
	err := s.Update(func(tx *Tx) error {
		return tx.PutJob(&ledger.Job{UID: "J" + uid, Namespace: "a", Name: "j-" + uid, Created: hour(created), Finished: hour(ended)})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHowBusyGPUsWere(t *testing.T) {
	s := opened(t)
	put(t, s, held("1", "a", "ada", 1000, 0, 1, 0), held("2", "a", "bob", 1000, 0, -1, 0), held("3", "a", "eve", 1000, 2, 3, 0))
	for uid, ended := range map[string]float64{"1": 1, "2": 4, "3": 3} {
		finishedJob(t, s, uid, 0, ended)
	}
	efficiencies := func() map[string]*ledger.Efficiency {
		t.Helper()
		jobs, _, err := s.FinishedJobs(JobQuery{From: hour(0), To: hour(9), Most: 9})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*ledger.Efficiency{}
		for _, job := range jobs {
			out[job.UID] = job.Efficiency
		}
		return out
	}
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	same("before anything is measured", map[string]*ledger.Efficiency{"J1": nil, "J2": nil, "J3": nil}, efficiencies())
	if err := s.Measure(hour(0), hour(1), half); err != nil {
		t.Fatal(err)
	}
	ended := held("2", "a", "bob", 1000, 0, 1.5, 0)
	err := s.Update(func(tx *Tx) error { // the recorder goes on with what it reads
		h, _, err := tx.Holding("2")
		if err != nil {
			return err
		}
		h.To = ended.To
		return tx.Put(h)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Measure(hour(1), hour(2), half); err != nil {
		t.Fatal(err)
	}
	busy := func(measured float64) *ledger.Efficiency {
		return &ledger.Efficiency{Utilization: ptr.To(50.0), Measured: measured}
	}
	same("of finished jobs", map[string]*ledger.Efficiency{"J1": busy(50), "J2": busy(100 * 1 / 1.5), "J3": {}}, efficiencies())
	job, pods, err := s.Job(Namespace{Name: "a"}, "J1")
	if err != nil || len(pods) != 1 {
		t.Fatalf("pods %v, error %v", pods, err)
	}
	same("of one", []*ledger.Efficiency{busy(50), busy(50)}, []*ledger.Efficiency{job.Efficiency, pods[0].Efficiency})
	usage, err := s.Usage(UsageQuery{By: []ledger.Key{ledger.ByNamespace}, From: hour(0), To: hour(2), Most: 9})
	if err != nil {
		t.Fatal(err)
	}
	same("of all", busy(60), usage.Items[0].Efficiency)
	if measured, _, err := s.Measured("pods"); err != nil || !measured.Equal(hour(2)) {
		t.Errorf("measured until %v, error %v", measured, err)
	}
}

// TestJobsOfVeryManyPods take their part of an answer, and no more.
func TestJobsOfVeryManyPods(t *testing.T) {
	s := opened(t)
	for _, uid := range []string{"1", "2"} {
		put(t, s, held(uid, "a", "ada", 1000, 0, 1, 0))
		finishedJob(t, s, uid, 0, 1)
	}
	if err := s.Measure(hour(0), hour(1), half); err != nil {
		t.Fatal(err)
	}
	err := s.db.View(func(tx *bbolt.Tx) error {
		e := newEfficiencies(tx)
		e.left = 1
		first, second := &ledger.Job{UID: "J1", Namespace: "a", Name: "j-1", Created: hour(0)}, &ledger.Job{UID: "J2", Namespace: "a", Name: "j-2", Created: hour(0)}
		over, err := e.fillEfficiency(first, true)
		if over || err != nil || first.Efficiency == nil {
			t.Errorf("of the first: over %t, %v, error %v", over, first.Efficiency, err)
		}
		over, err = e.fillEfficiency(second, false)
		if !over || err != nil || second.Efficiency != nil {
			t.Errorf("of the second: over %t, %v, error %v", over, second.Efficiency, err)
		}
		over, err = e.fillEfficiency(second, true)
		if over || err != nil || second.Efficiency != nil {
			t.Errorf("of one that is too much by itself: over %t, %v, error %v", over, second.Efficiency, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecordsOfBefore have nothing at their end that was measured; what is cut within it cannot be read.
func TestRecordsOfBefore(t *testing.T) {
	h := held("1", "a", "ada", 1000, 0, 1, 0)
	before := encodeHolding(&h)
	got, err := decodeHolding(before)
	if diff := cmp.Diff(h, got); diff != "" || err != nil {
		t.Errorf("error %v; a record of before (-want +got):\n%s", err, diff)
	}
	h.Load = ledger.Load{Measured: time.Hour, Busy: time.Minute}
	now := encodeHolding(&h)
	if !bytes.HasPrefix(now, before) {
		t.Error("who does not know of what is measured cannot read the rest")
	}
	if got, err := decodeHolding(now); err != nil || got.Load != h.Load {
		t.Errorf("%v, error %v, want %v", got.Load, err, h.Load)
	}
	d, row := decoder{in: now}, ledger.Row{}
	d.readRow(&row)
	d.readRest(&row)
	if d.bad || row.Load != h.Load || string(row.JobUID) != h.JobUID {
		t.Errorf("a row has %v of %s, bad %t", row.Load, row.JobUID, d.bad)
	}
	if _, err := decodeHolding(now[:len(now)-1]); !errors.Is(err, errMalformed) {
		t.Errorf("error %v of what is cut", err)
	}
}

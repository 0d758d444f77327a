package store

import (
	"bytes"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

var keyMeasured = []byte("measured")

// measuredUntil returns the time until which GPU load was measured, zero if never.
func measuredUntil(tx *bbolt.Tx) time.Time { return keyTime(tx.Bucket(about).Get(keyMeasured)) }

// Measured returns the time until which GPU load was measured, zero if never, and the time until which a resource is recorded.
func (s *Store) Measured(of string) (measured, followed time.Time, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		measured = measuredUntil(tx)
		mark, _, err := (&Tx{tx: tx}).Mark(of)
		followed = mark.Time
		return err
	})
	return measured, followed, err
}

// Measure adds the load to each holding of a time range and records that everything up to its end is measured: both or neither, so that nothing is
// added twice.
func (s *Store) Measure(from, to time.Time, load func(*ledger.Holding) ledger.Load) error {
	return s.Update(func(t *Tx) error {
		var measured []ledger.Holding
		note := func(value []byte) error {
			d, row := decoder{in: value}, ledger.Row{}
			if d.readRow(&row); row.From >= to.Unix() || row.To != 0 && row.To <= from.Unix() {
				return nil
			}
			h, err := decodeHolding(value)
			if err != nil {
				return nil // queries report it; the others are measured
			}
			more := load(&h)
			if more.Measured == 0 {
				return nil
			}
			h.Load.Measured, h.Load.Busy = h.Load.Measured+more.Measured, h.Load.Busy+more.Busy
			measured = append(measured, h)
			return nil
		}
		if err := t.eachSince(from, note); err != nil {
			return err
		}
		for i := range measured {
			if err := t.keepLoad(&measured[i]); err != nil {
				return err
			}
		}
		return t.tx.Bucket(about).Put(keyMeasured, timeKey(to))
	})
}

// eachSince calls note for the records of all holdings that had not ended before a time.
func (t *Tx) eachSince(from time.Time, note func(value []byte) error) error {
	c := t.tx.Bucket(ended).Cursor()
	for k, v := c.Seek(timeKey(from)); k != nil; k, v = c.Next() {
		if err := note(v); err != nil {
			return err
		}
	}
	return t.tx.Bucket(open).ForEach(func(_, v []byte) error { return note(v) })
}

// keepLoad writes a holding back.
func (t *Tx) keepLoad(h *ledger.Holding) error {
	if h.HasEnded() {
		return t.tx.Bucket(ended).Put(holdingKey(h), encodeHolding(h))
	}
	return t.tx.Bucket(open).Put([]byte(h.UID), encodeHolding(h))
}

// mostRead bounds the holdings read for one answer about jobs: a job may have had very many pods.
const mostRead = 200_000

var errTooMany = errors.New("too many pods to read in one answer")

// efficiencies computes the efficiency of jobs within the read limit of one answer.
type efficiencies struct {
	tx       *bbolt.Tx
	measured time.Time
	left     int
}

func newEfficiencies(tx *bbolt.Tx) *efficiencies {
	return &efficiencies{tx: tx, measured: measuredUntil(tx), left: mostRead}
}

// fillEfficiency sets the efficiency of a job. It returns true if the job exceeds the read limit of an answer; for the first job the efficiency is omitted
// instead.
func (e *efficiencies) fillEfficiency(job *ledger.Job, first bool) (over bool, err error) {
	job.Efficiency, err = e.jobEfficiency(job)
	if errors.Is(err, errTooMany) {
		return !first, nil
	}
	return false, err
}

// jobEfficiency returns the efficiency of a job's ended pods; nil if nothing is measured, [errTooMany] beyond the read limit.
func (e *efficiencies) jobEfficiency(job *ledger.Job) (*ledger.Efficiency, error) {
	if e.measured.IsZero() {
		return nil, nil
	}
	var sum ledger.EfficiencySum
	prefix := namePrefix(job.Namespace, job.Name)
	c := e.tx.Bucket(pods).Cursor()
	for k, _ := c.Seek(append(bytes.Clone(prefix), timeKey(job.Created)...)); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if e.left--; e.left < 0 {
			return nil, errTooMany
		}
		d, row := decoder{in: e.tx.Bucket(ended).Get(k[len(prefix):])}, ledger.Row{}
		d.readRow(&row)
		if d.readRest(&row); d.bad {
			return nil, errMalformed
		}
		if string(row.JobUID) == job.UID {
			life := row.LifeUntil(e.measured)
			sum.Add(row.Milli, life, life, row.Load)
		}
	}
	return sum.Efficiency(), nil
}

// fillEfficiencies sets the efficiency of a job and of each of its pods.
func fillEfficiencies(job *ledger.Job, held []ledger.Holding, measured time.Time) {
	if measured.IsZero() {
		return
	}
	var sum ledger.EfficiencySum
	for i := range held {
		h := &held[i]
		var own ledger.EfficiencySum
		life := h.LifeUntil(measured)
		own.Add(h.Milli, life, life, h.Load)
		sum.Add(h.Milli, life, life, h.Load)
		h.Efficiency = own.Efficiency()
	}
	job.Efficiency = sum.Efficiency()
}

package store

import (
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// mostRunsRead bounds how many holdings are read for the runs of one answer: a question must not keep the others waiting.
const mostRunsRead = 100_000

// RunQuery says which runs to read.
type RunQuery struct {
	// Namespaces are those to read, none for all.
	Namespaces []Namespace
	// From and To are when they ended.
	From, To time.Time
	// Most is how many to read, the last to end first.
	Most int
}

// Runs are for how long jobs held GPUs, the last to end first. The second result tells whether there are more.
func (s *Store) Runs(q RunQuery) (runs []ledger.Run, more bool, err error) {
	joining := ledger.NewJoining()
	usage := UsageQuery{Namespaces: q.Namespaces}
	keep := usage.filter()
	err = s.db.View(func(tx *bbolt.Tx) error {
		if err := (&Tx{tx: tx}).Open(func(h *ledger.Holding) error { joining.Hold(h); return nil }); err != nil {
			return err
		}
		c := tx.Bucket(ended).Cursor()
		read := 0
		for k, v := before(c, order(q.To.Add(time.Second))); k != nil && !orderOf(k).Before(q.From.Truncate(time.Second)); k, v = c.Prev() {
			if read++; joining.Len() > q.Most || read > mostRunsRead { // the last of so many is whole once there is another
				more = true
				return nil
			}
			row, d := ledger.Row{}, decoder{in: v}
			if d.row(&row); d.bad {
				return errMalformed
			}
			if !keep(&row) {
				continue
			}
			h, err := decode(v)
			if err != nil {
				return err
			}
			joining.Add(&h)
		}
		return nil
	})
	runs, more = joining.Runs(), more || joining.Skipped()
	if len(runs) > q.Most {
		return runs[:q.Most], true, err
	}
	return runs, more, err
}

// before is the last key before another.
func before(c *bbolt.Cursor, at []byte) (k, v []byte) {
	if k, _ = c.Seek(at); k == nil {
		return c.Last()
	}
	return c.Prev()
}

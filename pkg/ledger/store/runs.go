package store

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// mostRunsRead bounds the holdings read for the runs of one answer: a query must not block the others.
const mostRunsRead = 100_000

// RunQuery selects runs.
type RunQuery struct {
	// Namespaces are those to read, none for all.
	Namespaces []Namespace
	// From and To bound their end.
	From, To time.Time
	// Most bounds the number of runs, the last to end first.
	Most int
}

// Runs returns how long jobs held GPUs, the last to end first. The second result reports whether there are more.
func (s *Store) Runs(q RunQuery) (runs []ledger.Run, more bool, err error) {
	joining := ledger.NewRunJoiner()
	usage := UsageQuery{Namespaces: q.Namespaces}
	keep := usage.rowFilter()
	err = s.db.View(func(tx *bbolt.Tx) error {
		if err := (&Tx{tx: tx}).EachOpen(func(h *ledger.Holding) error { joining.AddHeld(h); return nil }); err != nil {
			return err
		}
		c := tx.Bucket(ended).Cursor()
		read := 0
		k, v := lastBefore(c, timeKey(q.To.Add(time.Second)))
		for ; k != nil && !keyTime(k).Before(q.From.Truncate(time.Second)); k, v = c.Prev() {
			if read++; joining.Len() > q.Most || read > mostRunsRead {
				more = true
				break
			}
			row, d := ledger.Row{}, decoder{in: v}
			if d.readRow(&row); d.bad {
				return errMalformed
			}
			if !keep(&row) {
				continue
			}
			h, err := decodeHolding(v)
			if err != nil {
				return err
			}
			joining.Add(&h)
		}
		joining.DropPartial(hasUnread(tx, k))
		return nil
	})
	runs, more = joining.Runs(), more || joining.HasSkipped()
	if len(runs) > q.Most {
		return runs[:q.Most], true, err
	}
	return runs, more, err
}

// hasUnread returns a function that reports whether a job has an unread holding that ended since a time. The read ones are those from the last to end
// down to key, which is the first unread one, nil for none.
func hasUnread(tx *bbolt.Tx, key []byte) func(namespace, job string, since time.Time) bool {
	c := tx.Bucket(pods).Cursor()
	return func(namespace, job string, since time.Time) bool {
		if key == nil {
			return false
		}
		prefix := namePrefix(namespace, job)
		first, _ := c.Seek(append(bytes.Clone(prefix), timeKey(since)...))
		return bytes.HasPrefix(first, prefix) && bytes.Compare(first[len(prefix):], key) <= 0
	}
}

// lastBefore returns the last entry before a key.
func lastBefore(c *bbolt.Cursor, at []byte) (k, v []byte) {
	if k, _ = c.Seek(at); k == nil {
		return c.Last()
	}
	return c.Prev()
}

package store

import (
	"bytes"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// UsageQuery says what to sum up.
type UsageQuery struct {
	By []ledger.Key
	// From and To are the time.
	From, To time.Time
	// Namespaces are those to sum up, none for all; User and Pool are one each, "" for any.
	Namespaces []Namespace
	User, Pool string
	// Most is how many sums to return; the others are one.
	Most int
	// Follows is what the following of pods is called, "" where all is known. What it has not come to is a gap.
	Follows string
}

// blind is how far following is behind at the most where it works: it goes on once a minute where nothing happens.
const blind = 3 * time.Minute

// Usage sums up who held how much of GPUs.
func (s *Store) Usage(q UsageQuery) (out ledger.Usage, err error) {
	out.From, out.To = q.From.UTC(), q.To.UTC()
	sums := ledger.NewSumming(q.By, q.From, q.To)
	keep := q.filter()
	err = s.db.View(func(tx *bbolt.Tx) error {
		sums.Measured = measuredUntil(tx)
		mark, ok, err := (&Tx{tx: tx}).Mark(q.Follows)
		if err != nil {
			return err
		}
		if ok && q.To.Sub(mark.Time) > blind {
			sums.Known = mark.Time
		}
		add := func(value []byte) error {
			d, row := decoder{in: value}, ledger.Row{}
			if d.row(&row); d.bad {
				return errMalformed
			}
			if !keep(&row) {
				return nil
			}
			if !sums.Measured.IsZero() {
				if d.rest(&row); d.bad {
					return errMalformed
				}
			}
			sums.Add(&row)
			return nil
		}
		// Whatever ended later may have begun within the time.
		if err := (&Tx{tx: tx}).each(q.From, add); err != nil {
			return err
		}
		out.Gaps = gapsOf(tx, q.From, q.To)
		if !sums.Known.IsZero() {
			out.Gaps = append(out.Gaps, ledger.Gap{From: sums.Known.Truncate(time.Second), To: out.To.Truncate(time.Second)})
		}
		if begin := orderOf(tx.Bucket(about).Get(keyBegin)); begin.After(q.From) {
			out.Begin = begin
		}
		return nil
	})
	out.Items, out.Rest = sums.Sums(q.Most)
	return out, err
}

func (q *UsageQuery) filter() func(*ledger.Row) bool {
	begins := map[string]int64{}
	for _, namespace := range q.Namespaces {
		begins[namespace.Name] = seconds(namespace.Begin)
	}
	user, pool := []byte(q.User), []byte(q.Pool)
	return func(row *ledger.Row) bool {
		begin, named := begins[string(row.Namespace)]
		return (len(begins) == 0 || named && row.From >= begin) &&
			(q.User == "" || bytes.Equal(user, row.User)) && (q.Pool == "" || bytes.Equal(pool, row.Pool))
	}
}

func gapsOf(tx *bbolt.Tx, from, to time.Time) (out []ledger.Gap) {
	c := tx.Bucket(gaps).Cursor()
	for k, v := c.Seek(order(from)); k != nil; k, v = c.Next() {
		if gap := (ledger.Gap{From: orderOf(v), To: orderOf(k)}); gap.From.Before(to) {
			out = append(out, gap)
		}
	}
	return out
}

// trimmed is how many records one change takes away: others wait for it.
const trimmed = 5000

// Trim takes away what had ended before a time. It returns how many records that were.
func (s *Store) Trim(before time.Time) (count int, err error) {
	for {
		n := 0
		err := s.update(func(tx *bbolt.Tx) (err error) {
			n, err = trim(tx, order(before))
			return err
		})
		count += n
		if err != nil {
			return count, err
		}
		if n < trimmed {
			break
		}
	}
	held, err := s.held()
	if err != nil {
		return count, err
	}
	n, err := s.shorten(held, mostHeld)
	return count + n, errors.Join(err, s.Reserve())
}

// trim takes away some of what had ended before a time, and returns of how much.
func trim(tx *bbolt.Tx, before []byte) (n int, err error) {
	for _, part := range []func(*bbolt.Tx, []byte, int) (int, error){trimHoldings, trimJobs, trimOutput} {
		count, err := part(tx, before, trimmed-n)
		if n += count; err != nil {
			return n, err
		}
	}
	g := tx.Bucket(gaps)
	for k, _ := g.Cursor().First(); k != nil && bytes.Compare(k, before) < 0; k, _ = g.Cursor().First() {
		if err := g.Delete(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// isBefore reports whether a key is there and begins with a time before another.
func isBefore(key, before []byte) bool { return key != nil && bytes.Compare(key[:8], before) < 0 }

func trimHoldings(tx *bbolt.Tx, before []byte, most int) (n int, err error) {
	c := tx.Bucket(ended).Cursor()
	for k, v := c.First(); isBefore(k, before) && n < most; k, v = c.Next() {
		h, err := decode(v)
		if err != nil {
			return n, err
		}
		if err := dropNames(tx, k, &h); err != nil {
			return n, err
		}
		n++
	}
	return n, deleteFirst(tx.Bucket(ended), n)
}

// dropNames takes a holding out of those of its job.
func dropNames(tx *bbolt.Tx, key []byte, h *ledger.Holding) error {
	name := named(h.Namespace, h.Job)
	return errors.Join(tx.Bucket(pods).Delete(append(bytes.Clone(name), key...)), tx.Bucket(orphans).Delete(append(name, h.UID...)))
}

func trimJobs(tx *bbolt.Tx, before []byte, most int) (n int, err error) {
	c := tx.Bucket(finished).Cursor()
	for k, _ := c.First(); isBefore(k, before) && n < most; k, _ = c.Next() {
		if err := deleteJob(tx, k[8:]); err != nil {
			return n, err
		}
		n++
	}
	return n, deleteFirst(tx.Bucket(finished), n)
}

func trimOutput(tx *bbolt.Tx, before []byte, most int) (n int, err error) {
	first := func() []byte { k, _ := tx.Bucket(ages).Cursor().First(); return k }
	for k := first(); isBefore(k, before) && n < most; k = first() {
		if err := dropOutput(tx, bytes.Clone(k[8:])); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// deleteFirst takes the first keys away. A cursor that deletes while it walks may leave some out.
func deleteFirst(bucket *bbolt.Bucket, count int) error {
	for range count {
		k, _ := bucket.Cursor().First()
		if err := bucket.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func deleteJob(tx *bbolt.Tx, uid []byte) error {
	job, err := jobOf(tx, uid)
	if err != nil || job == nil || job.Deleted.IsZero() {
		return err // one that is still there is remembered for its name's sake
	}
	name := append(append(named(job.Namespace, job.Name), order(job.Created)...), uid...)
	return errors.Join(dropPast(tx, job), tx.Bucket(names).Delete(name), tx.Bucket(jobs).Delete(uid))
}

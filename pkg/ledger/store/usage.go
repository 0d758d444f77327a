package store

import (
	"bytes"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// UsageQuery selects the usage to sum.
type UsageQuery struct {
	By []ledger.Key
	// From and To bound the time.
	From, To time.Time
	// Namespaces are those to sum, none for all. User and Pool select one each, "" for any.
	Namespaces []Namespace
	User, Pool string
	// Most bounds the number of sums; the others are summed into one.
	Most int
	// Follows is the mark of the recording of pods, "" if everything is known. Time after the mark is a gap.
	Follows string
}

// staleAfter is the maximum lag of a working recorder: without events it advances once per minute.
const staleAfter = 3 * time.Minute

// Usage sums GPU usage.
func (s *Store) Usage(q UsageQuery) (out ledger.Usage, err error) {
	out.From, out.To = q.From.UTC(), q.To.UTC()
	sums := ledger.NewUsageSummer(q.By, q.From, q.To)
	keep := q.rowFilter()
	err = s.db.View(func(tx *bbolt.Tx) error {
		sums.Measured = measuredUntil(tx)
		mark, ok, err := (&Tx{tx: tx}).Mark(q.Follows)
		if err != nil {
			return err
		}
		if ok && q.To.Sub(mark.Time) > staleAfter {
			sums.Known = mark.Time
		}
		add := func(value []byte) error {
			d, row := decoder{in: value}, ledger.Row{}
			if d.readRow(&row); d.bad {
				return errMalformed
			}
			if !keep(&row) {
				return nil
			}
			if !sums.Measured.IsZero() {
				if d.readRest(&row); d.bad {
					return errMalformed
				}
			}
			sums.Add(&row)
			return nil
		}
		// Holdings that ended later may have begun within the range.
		if err := (&Tx{tx: tx}).eachSince(q.From, add); err != nil {
			return err
		}
		out.Gaps = gapsOf(tx, q.From, q.To)
		if !sums.Known.IsZero() {
			out.Gaps = append(out.Gaps, ledger.Gap{From: sums.Known.Truncate(time.Second), To: out.To.Truncate(time.Second)})
		}
		if begin := keyTime(tx.Bucket(about).Get(keyBegin)); begin.After(q.From) {
			out.Begin = begin
		}
		return nil
	})
	out.Items, out.Rest = sums.Sums(q.Most)
	return out, err
}

func (q *UsageQuery) rowFilter() func(*ledger.Row) bool {
	begins := map[string]int64{}
	for _, namespace := range q.Namespaces {
		begins[namespace.Name] = unixSeconds(namespace.Begin)
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
	for k, v := c.Seek(timeKey(from)); k != nil; k, v = c.Next() {
		if gap := (ledger.Gap{From: keyTime(v), To: keyTime(k)}); gap.From.Before(to) {
			out = append(out, gap)
		}
	}
	return out
}

// trimBatch bounds the records that one transaction deletes, because others wait for it.
const trimBatch = 5000

// Trim deletes records that ended before a time and returns their number.
func (s *Store) Trim(before time.Time) (count int, err error) {
	for {
		n := 0
		err := s.updateFile(func(tx *bbolt.Tx) (err error) {
			n, err = trimOnce(tx, timeKey(before))
			return err
		})
		count += n
		if err != nil {
			return count, err
		}
		if n < trimBatch {
			break
		}
	}
	held, err := s.countHoldings()
	if err != nil {
		return count, err
	}
	n, err := s.dropExcess(held, mostHeld)
	return count + n, errors.Join(err, s.ReserveSpace())
}

// trimOnce deletes a batch of records that ended before a time and returns their number.
func trimOnce(tx *bbolt.Tx, before []byte) (n int, err error) {
	for _, part := range []func(*bbolt.Tx, []byte, int) (int, error){trimHoldings, trimJobs, trimOutput} {
		count, err := part(tx, before, trimBatch-n)
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

// isBefore reports whether a key exists and begins with an earlier time.
func isBefore(key, before []byte) bool { return key != nil && bytes.Compare(key[:8], before) < 0 }

func trimHoldings(tx *bbolt.Tx, before []byte, most int) (n int, err error) {
	c := tx.Bucket(ended).Cursor()
	for k, v := c.First(); isBefore(k, before) && n < most; k, v = c.Next() {
		h, err := decodeHolding(v)
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

// dropNames removes a holding from the index of its job.
func dropNames(tx *bbolt.Tx, key []byte, h *ledger.Holding) error {
	name := namePrefix(h.Namespace, h.Job)
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

// deleteFirst deletes the first keys. A cursor that deletes while iterating may skip some.
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
		return err // an existing job is kept, because its name still refers to it
	}
	name := append(append(namePrefix(job.Namespace, job.Name), timeKey(job.Created)...), uid...)
	return errors.Join(dropPast(tx, job), tx.Bucket(names).Delete(name), tx.Bucket(jobs).Delete(uid))
}

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Job returns the record of a job, nil if unknown.
func (t *Tx) Job(uid string) (*ledger.Job, error) { return jobOf(t.tx, []byte(uid)) }

func jobOf(tx *bbolt.Tx, uid []byte) (*ledger.Job, error) {
	value := tx.Bucket(jobs).Get(uid)
	if value == nil {
		return nil, nil
	}
	job := &ledger.Job{}
	if err := json.Unmarshal(value, job); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return job, nil
}

// PutJob stores a job and replaces its previous record.
func (t *Tx) PutJob(job *ledger.Job) error {
	bounded := *job
	bounded.Efficiency = nil // derived from the holdings of its pods
	for text, most := range map[*string]int{&bounded.User: maxText, &bounded.Message: maxText, &bounded.Reason: maxName, &bounded.Pool: maxName} {
		*text = plainText(*text, most)
	}
	value, err := encodeJob(&bounded)
	if err != nil || bytes.Equal(value, t.tx.Bucket(jobs).Get([]byte(job.UID))) {
		return err
	}
	known, err := t.Job(job.UID)
	if err != nil {
		return err
	}
	if known != nil && !known.Finished.IsZero() {
		if err := t.tx.Bucket(finished).Delete(append(timeKey(known.Finished), job.UID...)); err != nil {
			return err
		}
	}
	name := append(append(namePrefix(job.Namespace, job.Name), timeKey(job.Created)...), job.UID...)
	err = errors.Join(t.tx.Bucket(jobs).Put([]byte(job.UID), value), t.tx.Bucket(names).Put(name, nil))
	if !job.Finished.IsZero() {
		err = errors.Join(err, t.tx.Bucket(finished).Put(append(timeKey(job.Finished), job.UID...), nil))
	}
	if known != nil && !known.Deleted.Equal(job.Deleted) {
		err = errors.Join(err, dropPast(t.tx, known))
	}
	return errors.Join(err, t.addPast(job))
}

// maxName bounds texts that are not sentences.
const maxName = 128

// plainText returns a bounded text without characters that JSON encodes in six bytes. Users write these texts, and a deleted job could otherwise take
// five times its expected size.
func plainText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text[:min(len(text), most)])
	return strings.ToValidUTF8(text, "")
}

func encodeJob(job *ledger.Job) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(job); err != nil {
		return nil, fmt.Errorf("encoding a job: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// JobAt returns the job of a name that was the newest at a time, nil for none.
func (t *Tx) JobAt(namespace, name string, at time.Time) (*ledger.Job, error) {
	prefix := namePrefix(namespace, name)
	// Seek directly: a name may have belonged to very many jobs.
	k, _ := lastBefore(t.tx.Bucket(names).Cursor(), append(bytes.Clone(prefix), timeKey(at.Add(time.Second))...))
	if !bytes.HasPrefix(k, prefix) || len(k) <= len(prefix)+8 {
		return nil, nil
	}
	return jobOf(t.tx, k[len(prefix)+8:])
}

// AdoptHoldings assigns to a job the holdings with its name that were seen before it.
func (t *Tx) AdoptHoldings(job *ledger.Job) error {
	prefix := namePrefix(job.Namespace, job.Name)
	waiting := keysWith(t.tx.Bucket(orphans), prefix, prefix)
	if len(waiting) == 0 {
		return nil
	}
	found, err := t.orphanHoldings(prefix, waiting, job.Created)
	if err != nil {
		return err
	}
	for i := range found {
		h := &found[i]
		if h.JobUID != "" || h.From.Before(job.Created) {
			continue // belongs to another job with the name
		}
		h.JobUID, h.User = job.UID, job.User
		bucket, at := open, []byte(h.UID)
		if h.HasEnded() {
			bucket, at = ended, holdingKey(h)
		}
		err := errors.Join(t.tx.Bucket(bucket).Put(at, encodeHolding(h)), t.tx.Bucket(orphans).Delete(append(bytes.Clone(prefix), h.UID...)))
		if err != nil {
			return err
		}
	}
	return nil
}

// orphanHoldings returns the holdings of a name that wait for their job, created at a time, and perhaps those of other jobs with the name.
func (t *Tx) orphanHoldings(prefix []byte, waiting [][]byte, created time.Time) (out []ledger.Holding, err error) {
	for _, k := range waiting {
		if value := t.tx.Bucket(open).Get(k[len(prefix):]); value != nil {
			h, err := decodeHolding(value)
			if err != nil {
				return nil, err
			}
			out = append(out, h)
		}
	}
	for _, k := range keysWith(t.tx.Bucket(pods), prefix, append(bytes.Clone(prefix), timeKey(created)...)) {
		h, err := decodeHolding(t.tx.Bucket(ended).Get(k[len(prefix):]))
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// keysWith returns the keys of a bucket with a prefix, starting at one.
func keysWith(bucket *bbolt.Bucket, prefix, from []byte) (out [][]byte) {
	c := bucket.Cursor()
	for k, _ := c.Seek(from); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		out = append(out, bytes.Clone(k))
	}
	return out
}

// EachJob calls each for all jobs that are not deleted.
func (t *Tx) EachJob(each func(*ledger.Job) error) error {
	return t.tx.Bucket(jobs).ForEach(func(uid, _ []byte) error {
		job, err := jobOf(t.tx, uid)
		if err != nil || !job.Deleted.IsZero() {
			return err
		}
		return each(job)
	})
}

// JobAt returns the UID of the job of a name that was the newest at a time, "" for none.
func (s *Store) JobAt(namespace, name string, at time.Time) (uid string, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		job, err := (&Tx{tx: tx}).JobAt(namespace, name, at)
		if job != nil {
			uid = job.UID
		}
		return err
	})
	return uid, err
}

// JobQuery selects finished jobs.
type JobQuery struct {
	// Namespaces are those to read, none for all. Name, User and Pool select one each, "" for any.
	Namespaces       []Namespace
	Name, User, Pool string
	// From and To bound their end.
	From, To time.Time
	// Most bounds the number of jobs, the last to finish first, and MostBytes approximately their JSON size, 0 for no bound.
	Most, MostBytes int
}

func (q *JobQuery) matchesJob(job *ledger.Job) bool {
	isIts := func(n Namespace) bool { return n.Has(job.Namespace, job.Created) }
	return (len(q.Namespaces) == 0 || slices.ContainsFunc(q.Namespaces, isIts)) && (q.Name == "" || q.Name == job.Name) &&
		(q.User == "" || q.User == job.User) && (q.Pool == "" || q.Pool == job.Pool)
}

// FinishedJobs returns finished jobs, the last first, as many as may be read with their pods for one answer. The second result reports whether there
// are more.
func (s *Store) FinishedJobs(q JobQuery) (out []ledger.Job, more bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		busy, size := newEfficiencies(tx), 0
		c := tx.Bucket(finished).Cursor()
		k, _ := c.Seek(timeKey(q.To.Add(time.Second)))
		if k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
		for ; k != nil && !keyTime(k).Before(q.From.Truncate(time.Second)); k, _ = c.Prev() {
			job, err := jobOf(tx, k[8:])
			if err != nil {
				return err
			}
			if job == nil || !q.matchesJob(job) {
				continue
			}
			size += len(tx.Bucket(jobs).Get(k[8:]))
			if len(out) == q.Most || q.MostBytes > 0 && size > q.MostBytes && len(out) > 0 {
				more = true
				return nil
			}
			if more, err = busy.fillEfficiency(job, len(out) == 0); err != nil || more {
				return err
			}
			out = append(out, *job)
		}
		return nil
	})
	return out, more, err
}

// Job returns a job of a namespace, nil if unknown, and the holdings of its pods in the order of their ends.
func (s *Store) Job(namespace Namespace, uid string) (job *ledger.Job, held []ledger.Holding, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if job, err = jobOf(tx, []byte(uid)); err != nil || job == nil {
			return err
		}
		if !namespace.Has(job.Namespace, job.Created) {
			job = nil // its UID must not bypass the rights to it
			return nil
		}
		if held, err = jobHoldings(tx, job); err == nil {
			fillEfficiencies(job, held, measuredUntil(tx))
		}
		return err
	})
	return job, held, err
}

// mostHoldings bounds the holdings read for one job: a job that runs forever may have had very many pods.
const mostHoldings = 5000

func jobHoldings(tx *bbolt.Tx, job *ledger.Job) (out []ledger.Holding, err error) {
	prefix := namePrefix(job.Namespace, job.Name)
	for _, k := range keysWith(tx.Bucket(pods), prefix, append(bytes.Clone(prefix), timeKey(job.Created)...)) {
		h, err := decodeHolding(tx.Bucket(ended).Get(k[len(prefix):]))
		if err != nil {
			return nil, err
		}
		if h.JobUID == job.UID && len(out) < mostHoldings {
			out = append(out, h)
		}
	}
	err = (&Tx{tx: tx}).EachOpen(func(h *ledger.Holding) error {
		if h.JobUID == job.UID && len(out) < mostHoldings {
			out = append(out, *h)
		}
		return nil
	})
	return out, err
}

package store

import (
	"bytes"
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Buckets of the jobs that are deleted. Whoever makes and deletes jobs all day would else fill the disk, for years.
var (
	past      = []byte("past")      // namespace, time of deletion, UID -> nothing
	pastCount = []byte("pastcount") // namespace -> how many
)

// mostPast is how many deleted jobs of a namespace are remembered, the last, some 60 MB. What their pods held is remembered all the
// same.
const mostPast = 100_000

func pastPrefix(namespace string) []byte { return append([]byte(namespace), 0) }

func pastKey(job *ledger.Job) []byte {
	return append(append(pastPrefix(job.Namespace), order(job.Deleted)...), job.UID...)
}

func countOf(tx *bbolt.Tx, namespace string) int {
	value := tx.Bucket(pastCount).Get(pastPrefix(namespace))
	if len(value) != 8 {
		return 0
	}
	return int(binary.BigEndian.Uint64(value))
}

func count(tx *bbolt.Tx, namespace string, by int) error {
	key, left := pastPrefix(namespace), countOf(tx, namespace)+by
	if left <= 0 {
		return tx.Bucket(pastCount).Delete(key)
	}
	return tx.Bucket(pastCount).Put(key, binary.BigEndian.AppendUint64(nil, uint64(left)))
}

// isPast reports whether a job is counted as deleted.
func isPast(tx *bbolt.Tx, job *ledger.Job) bool {
	k, _ := tx.Bucket(past).Cursor().Seek(pastKey(job))
	return !job.Deleted.IsZero() && bytes.Equal(k, pastKey(job))
}

// addPast counts a job that is deleted, and forgets the first to be so of its namespace where there are too many.
func (t *Tx) addPast(job *ledger.Job) error {
	if job.Deleted.IsZero() || isPast(t.tx, job) {
		return nil
	}
	if err := errors.Join(t.tx.Bucket(past).Put(pastKey(job), nil), count(t.tx, job.Namespace, 1)); err != nil {
		return err
	}
	most := t.mostPast
	if most == 0 {
		most = mostPast
	}
	for countOf(t.tx, job.Namespace) > most {
		if err := forgetFirst(t.tx, job.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// dropPast counts a job no more.
func dropPast(tx *bbolt.Tx, job *ledger.Job) error {
	if !isPast(tx, job) {
		return nil
	}
	return errors.Join(tx.Bucket(past).Delete(pastKey(job)), count(tx, job.Namespace, -1))
}

// forgetFirst forgets the job of a namespace that was deleted first.
func forgetFirst(tx *bbolt.Tx, namespace string) error {
	prefix := pastPrefix(namespace)
	k, _ := tx.Bucket(past).Cursor().Seek(prefix)
	if !bytes.HasPrefix(k, prefix) || len(k) <= len(prefix)+8 {
		return tx.Bucket(pastCount).Delete(prefix) // nothing is left to be counted
	}
	key := bytes.Clone(k)
	if err := errors.Join(tx.Bucket(past).Delete(key), count(tx, namespace, -1)); err != nil {
		return err
	}
	uid := key[len(prefix)+8:]
	job, err := jobOf(tx, uid)
	if err != nil || job == nil {
		return err
	}
	return errors.Join(tx.Bucket(finished).Delete(append(order(job.Finished), uid...)), deleteJob(tx, uid))
}

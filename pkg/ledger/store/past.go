package store

import (
	"bytes"
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Buckets of deleted jobs. They are bounded, because creating and deleting jobs all day would otherwise fill the disk over years.
var (
	past      = []byte("past")      // namespace, time of deletion, UID -> nothing
	pastCount = []byte("pastcount") // namespace -> how many
	pastBytes = []byte("pastbytes") // namespace -> about how many bytes they take
)

// mostPast bounds the deleted jobs kept per namespace, the last ones, and mostPastBytes their size: users may write long texts. The holdings of their
// pods are kept regardless.
const (
	mostPast      = 100_000
	mostPastBytes = 64 << 20
	// pastOverhead is the size of a job's keys.
	pastOverhead = 300
)

func pastPrefix(namespace string) []byte { return append([]byte(namespace), 0) }

func pastKey(job *ledger.Job) []byte {
	return append(append(pastPrefix(job.Namespace), timeKey(job.Deleted)...), job.UID...)
}

func countOf(tx *bbolt.Tx, namespace string) int { return numberOf(tx.Bucket(pastCount), namespace) }

func numberOf(of *bbolt.Bucket, namespace string) int {
	value := of.Get(pastPrefix(namespace))
	if len(value) != 8 {
		return 0
	}
	return int(binary.BigEndian.Uint64(value))
}

// countPast updates the count and size of a namespace's deleted jobs.
func countPast(tx *bbolt.Tx, namespace string, by int, uid []byte) error {
	size := len(tx.Bucket(jobs).Get(uid)) + pastOverhead
	return errors.Join(addCount(tx.Bucket(pastCount), namespace, by), addCount(tx.Bucket(pastBytes), namespace, by*size))
}

func addCount(of *bbolt.Bucket, namespace string, by int) error {
	key, left := pastPrefix(namespace), numberOf(of, namespace)+by
	if left <= 0 {
		return of.Delete(key)
	}
	return of.Put(key, binary.BigEndian.AppendUint64(nil, uint64(left)))
}

// isPast reports whether a job is counted as deleted.
func isPast(tx *bbolt.Tx, job *ledger.Job) bool {
	k, _ := tx.Bucket(past).Cursor().Seek(pastKey(job))
	return !job.Deleted.IsZero() && bytes.Equal(k, pastKey(job))
}

// addPast counts a deleted job, and deletes the oldest ones of its namespace beyond the limits.
func (t *Tx) addPast(job *ledger.Job) error {
	if job.Deleted.IsZero() || isPast(t.tx, job) {
		return nil
	}
	if err := errors.Join(t.tx.Bucket(past).Put(pastKey(job), nil), countPast(t.tx, job.Namespace, 1, []byte(job.UID))); err != nil {
		return err
	}
	most := t.mostPast
	if most == 0 {
		most = mostPast
	}
	for countOf(t.tx, job.Namespace) > most || numberOf(t.tx.Bucket(pastBytes), job.Namespace) > t.pastBytes() {
		if err := forgetFirst(t.tx, job.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// dropPast removes a job from the count.
func dropPast(tx *bbolt.Tx, job *ledger.Job) error {
	if !isPast(tx, job) {
		return nil
	}
	return errors.Join(tx.Bucket(past).Delete(pastKey(job)), countPast(tx, job.Namespace, -1, []byte(job.UID)))
}

// forgetFirst deletes the namespace's job that was deleted first.
func forgetFirst(tx *bbolt.Tx, namespace string) error {
	prefix := pastPrefix(namespace)
	k, _ := tx.Bucket(past).Cursor().Seek(prefix)
	if !bytes.HasPrefix(k, prefix) || len(k) <= len(prefix)+8 {
		return errors.Join(tx.Bucket(pastCount).Delete(prefix), tx.Bucket(pastBytes).Delete(prefix)) // nothing is left to count
	}
	key := bytes.Clone(k)
	if err := errors.Join(tx.Bucket(past).Delete(key), countPast(tx, namespace, -1, key[len(prefix)+8:])); err != nil {
		return err
	}
	uid := key[len(prefix)+8:]
	job, err := jobOf(tx, uid)
	if err != nil || job == nil {
		return err
	}
	return errors.Join(tx.Bucket(finished).Delete(append(timeKey(job.Finished), uid...)), deleteJob(tx, uid))
}

// pastBytes bounds the bytes of a namespace's deleted jobs.
func (t *Tx) pastBytes() int {
	if t.mostPastBytes > 0 {
		return t.mostPastBytes
	}
	return mostPastBytes
}

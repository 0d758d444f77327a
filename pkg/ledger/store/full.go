package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"
)

const (
	// reserveBytes is disk space that is released when the disk is full: deleting from the file requires a few writes. It is filled with data, because an
	// empty file reserves no space.
	reserveBytes  = 16 << 20
	reserveSuffix = ".reserve"
	// mostHeld is how many ended holdings are kept per namespace, the last ones, some 300 MB.
	mostHeld = 300_000
	// shrinkDivisor is the divisor of the part that is deleted from the heaviest namespace when the disk is full.
	shrinkDivisor = 8
	// smallestPart is the largest divisor, for the smallest part.
	smallestPart = 1 << 24
)

// IsFull reports whether an error means that the disk is full. bbolt passes on only the text of some errors.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// IsDiskFull reports whether the file cannot grow, so that the oldest records must be deleted.
func (s *Store) IsDiskFull() bool { return s.full.Load() }

// ReserveSpace keeps disk space in reserve for when the disk is full.
func (s *Store) ReserveSpace() error {
	path := s.path + reserveSuffix
	info, err := os.Stat(path)
	if err == nil && info.Size() == reserveBytes {
		s.full.Store(false)
		return nil
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, reserveBytes), 0o600); err != nil {
		if !IsFull(err) {
			return fmt.Errorf("keeping room on the disk: %w", err)
		}
		s.full.Store(true)
		return s.giveUpReserve()
	}
	s.full.Store(false)
	return nil
}

func (s *Store) giveUpReserve() error {
	if err := os.Remove(s.path + reserveSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("giving up the room that was kept on the disk: %w", err)
	}
	return nil
}

// updateFile changes the file. If the disk is full, it fails, but frees space in the file, so that a retry succeeds.
func (s *Store) updateFile(change func(*bbolt.Tx) error) error {
	err := s.db.Update(change)
	if !IsFull(err) {
		return err
	}
	s.full.Store(true)
	return errors.Join(err, s.giveUpReserve(), s.makeRoom())
}

// shrinkToBudget deletes a part of the output, of the deleted jobs and of the holdings, each from the namespace that has the most: no namespace displaces
// the records of others. Deleting needs a few pages itself: without space even for that, because an earlier version kept no reserve, it deletes less
// at a time.
func (s *Store) makeRoom() error {
	err := s.shrinkHeaviest()
	if err != nil && !IsFull(err) {
		return fmt.Errorf("making room: %w", err)
	}
	held, err := s.countHoldings()
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	most := 0
	for _, count := range held {
		most = max(most, count)
	}
	if _, err := s.dropExcess(held, most-(most+shrinkDivisor-1)/shrinkDivisor); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	return nil
}

// shrinkHeaviest deletes a part of the output and of the deleted jobs, and a smaller one while there is no space to delete more.
func (s *Store) shrinkHeaviest() (err error) {
	for part := int64(shrinkDivisor); part <= smallestPart; part *= shrinkDivisor {
		err = s.db.Update(func(tx *bbolt.Tx) error {
			namespace, size := heaviestNamespace(tx)
			return errors.Join(shrinkOutput(tx, namespace, size-size/part), shrinkPast(tx, int(part)))
		})
		if !IsFull(err) {
			return err
		}
	}
	return err
}

// heaviestNamespace returns the namespace with the most output, and its size.
func heaviestNamespace(tx *bbolt.Tx) (namespace string, size int64) {
	_ = tx.Bucket(sizes).ForEach(func(key, _ []byte) error { // the callback does not fail
		of := string(key[1:])
		if is := sizeOf(tx, of); of != "" && is > size {
			namespace, size = of, is
		}
		return nil
	})
	return namespace, size
}

// shrinkPast deletes the oldest part of the deleted jobs of the namespace with the most of them.
func shrinkPast(tx *bbolt.Tx, part int) error {
	namespace, most := "", 0
	err := tx.Bucket(pastCount).ForEach(func(key, _ []byte) error {
		of := string(bytes.TrimSuffix(key, []byte{0}))
		if count := countOf(tx, of); count > most {
			namespace, most = of, count
		}
		return nil
	})
	for range min((most+part-1)/part, trimBatch) {
		err = errors.Join(err, forgetFirst(tx, namespace))
	}
	return err
}

// countHoldings counts the ended holdings of each namespace.
func (s *Store) countHoldings() (map[string]int, error) {
	out := map[string]int{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(ended).ForEach(func(_, value []byte) error {
			h, err := decodeHolding(value)
			out[h.Namespace]++
			return err
		})
	})
	return out, err
}

// dropExcess deletes the oldest holdings of namespaces that exceed a limit, in batches, and returns how many it deleted.
func (s *Store) dropExcess(held map[string]int, most int) (count int, err error) {
	over := map[string]int{}
	for namespace, has := range held {
		if has > most {
			over[namespace] = has - most
		}
	}
	for batch := trimBatch; len(over) > 0; {
		n, left := 0, maps.Clone(over)
		err := s.db.Update(func(tx *bbolt.Tx) (err error) {
			n, err = dropOldest(tx, left, batch)
			return err
		})
		if IsFull(err) && batch > 1 {
			batch = max(1, batch/shrinkDivisor)
			continue
		}
		if err != nil || n == 0 {
			return count, err
		}
		count, over, batch = count+n, left, min(trimBatch, 2*batch)
	}
	return count, nil
}

// dropOldest deletes the oldest holdings of each namespace by the number in over, at most a limit in total. It updates over to the remaining numbers.
func dropOldest(tx *bbolt.Tx, over map[string]int, most int) (int, error) {
	var gone [][]byte
	left := map[string]int{}
	for namespace, count := range over {
		left[namespace] = count
	}
	c := tx.Bucket(ended).Cursor()
	for k, v := c.First(); k != nil && len(gone) < most && len(left) > 0; k, v = c.Next() {
		h, err := decodeHolding(v)
		if err != nil {
			return 0, err
		}
		if left[h.Namespace] == 0 {
			continue
		}
		if left[h.Namespace]--; left[h.Namespace] == 0 {
			delete(left, h.Namespace)
		}
		gone = append(gone, bytes.Clone(k))
		if err := dropNames(tx, k, &h); err != nil {
			return 0, err
		}
	}
	for _, k := range gone {
		if err := tx.Bucket(ended).Delete(k); err != nil {
			return 0, err
		}
	}
	clear(over)
	for namespace, count := range left {
		over[namespace] = count
	}
	return len(gone), nil
}

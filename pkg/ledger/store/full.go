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
	// reserved is room on the disk that is given up when it is full: nothing can be taken away from the file without writing a
	// little. It is written, as a file of nothing takes no room.
	reserved      = 16 << 20
	reserveSuffix = ".reserve"
	// mostHeld is how many holdings that have ended are kept of a namespace, the last, some 300 MB.
	mostHeld = 300_000
	// lighter is the part that is taken away of what is heaviest when the disk is full.
	lighter = 8
	// smallest is the smallest part, one of so many.
	smallest = 1 << 24
)

// IsFull reports whether an error says that the disk has no room. bbolt passes on the text alone of some.
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

// Full reports whether the disk has no room for more than the file has, so that what is oldest has to go.
func (s *Store) Full() bool { return s.full.Load() }

// Reserve keeps room on the disk for the time when it is full.
func (s *Store) Reserve() error {
	path := s.path + reserveSuffix
	info, err := os.Stat(path)
	if err == nil && info.Size() == reserved {
		s.full.Store(false)
		return nil
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, reserved), 0o600); err != nil {
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

// update changes the file. When the disk is full it fails, as any other time, and room has been made in the file: what is done
// again has it.
func (s *Store) update(change func(*bbolt.Tx) error) error {
	err := s.db.Update(change)
	if !IsFull(err) {
		return err
	}
	s.full.Store(true)
	return errors.Join(err, s.giveUpReserve(), s.makeRoom())
}

// makeRoom takes away a part of the output that is kept, of the deleted jobs and of the holdings, each of the namespace that has most
// of them: no namespace drives out what others have. To take something away takes a few pages itself: where there is no room even for that,
// as no earlier version kept any, less is taken away at a time.
func (s *Store) makeRoom() error {
	err := s.lighten()
	if err != nil && !IsFull(err) {
		return fmt.Errorf("making room: %w", err)
	}
	held, err := s.held()
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	most := 0
	for _, count := range held {
		most = max(most, count)
	}
	if _, err := s.shorten(held, most-(most+lighter-1)/lighter); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	return nil
}

// lighten takes away a part of the output and of the deleted jobs, a smaller one as long as there is no room to take away more.
func (s *Store) lighten() (err error) {
	for part := int64(lighter); part <= smallest; part *= lighter {
		err = s.db.Update(func(tx *bbolt.Tx) error {
			namespace, size := heaviest(tx)
			return errors.Join(shrinkOutput(tx, namespace, size-size/part), shrinkPast(tx, int(part)))
		})
		if !IsFull(err) {
			return err
		}
	}
	return err
}

// heaviest is the namespace with the most output, and how much that is.
func heaviest(tx *bbolt.Tx) (namespace string, size int64) {
	_ = tx.Bucket(sizes).ForEach(func(key, _ []byte) error { // it calls what does not fail
		of := string(key[1:])
		if is := sizeOf(tx, of); of != "" && is > size {
			namespace, size = of, is
		}
		return nil
	})
	return namespace, size
}

// shrinkPast forgets the first of the deleted jobs of the namespace with most of them, one part of so many.
func shrinkPast(tx *bbolt.Tx, part int) error {
	namespace, most := "", 0
	err := tx.Bucket(pastCount).ForEach(func(key, _ []byte) error {
		of := string(bytes.TrimSuffix(key, []byte{0}))
		if count := countOf(tx, of); count > most {
			namespace, most = of, count
		}
		return nil
	})
	for range min((most+part-1)/part, trimmed) {
		err = errors.Join(err, forgetFirst(tx, namespace))
	}
	return err
}

// held is how many holdings that have ended there are of each namespace.
func (s *Store) held() (map[string]int, error) {
	out := map[string]int{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(ended).ForEach(func(_, value []byte) error {
			h, err := decode(value)
			out[h.Namespace]++
			return err
		})
	})
	return out, err
}

// shorten takes the oldest holdings away of namespaces that have more than so many, some at a time, and returns how many.
func (s *Store) shorten(held map[string]int, most int) (count int, err error) {
	over := map[string]int{}
	for namespace, has := range held {
		if has > most {
			over[namespace] = has - most
		}
	}
	for batch := trimmed; len(over) > 0; {
		n, left := 0, maps.Clone(over)
		err := s.db.Update(func(tx *bbolt.Tx) (err error) {
			n, err = dropOldest(tx, left, batch)
			return err
		})
		if IsFull(err) && batch > 1 {
			batch = max(1, batch/lighter)
			continue
		}
		if err != nil || n == 0 {
			return count, err
		}
		count, over, batch = count+n, left, min(trimmed, 2*batch)
	}
	return count, nil
}

// dropOldest takes away holdings of namespaces, of each as many as over says, which says how many are left then, and no more than so many in all.
func dropOldest(tx *bbolt.Tx, over map[string]int, most int) (int, error) {
	var gone [][]byte
	left := map[string]int{}
	for namespace, count := range over {
		left[namespace] = count
	}
	c := tx.Bucket(ended).Cursor()
	for k, v := c.First(); k != nil && len(gone) < most && len(left) > 0; k, v = c.Next() {
		h, err := decode(v)
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

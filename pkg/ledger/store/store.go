// Package store keeps a ledger in one file, with bbolt: each change is on the disk before the next, whoever is killed when.
// What has ended is ordered by its end, so that a question about a time reads that time alone, and what is too old is
// taken away without looking at the rest.
package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Buckets.
var (
	open     = []byte("open")     // UID of the pod -> holding
	lasting  = []byte("lasting")  // UID of a pod whose holding has ended, and which is still there -> nothing
	ended    = []byte("ended")    // end, UID -> holding
	pods     = []byte("pods")     // namespace, job, end, UID -> nothing: the holdings of a job
	orphans  = []byte("orphans")  // namespace, job, UID -> nothing: holdings of which the job was not seen yet
	jobs     = []byte("jobs")     // UID -> job
	names    = []byte("names")    // namespace, name, created, UID -> nothing: the jobs of a name
	finished = []byte("finished") // end, UID -> nothing: jobs that have ended
	marks    = []byte("marks")    // what is followed -> mark
	gaps     = []byte("gaps")     // end -> gap
	about    = []byte("about")    // facts of the ledger itself

	all = [][]byte{open, lasting, ended, pods, orphans, jobs, names, finished, marks, gaps, about,
		outputs, places, ages, ofJob, sizes, past, pastCount, pastBytes}
)

var keyBegin = []byte("begin")

// lockPatience is how long a file is waited for that another process has open.
const lockPatience = 5 * time.Second

// Store is a ledger in a file.
type Store struct {
	db   *bbolt.DB
	path string
	// full says that the disk is.
	full atomic.Bool
}

// Open opens a ledger, which begins at now where there was none.
func Open(path string, now time.Time) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockPatience, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("opening the ledger %s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w", path, err)
	}
	s := &Store{db: db, path: path}
	if err := errors.Join(s.prepare(now), s.Reserve()); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the ledger %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare makes what a new file needs. To one that has it nothing is written: the disk may be full.
func (s *Store) prepare(now time.Time) error {
	prepared := true
	err := s.db.View(func(tx *bbolt.Tx) error {
		for _, name := range all {
			prepared = prepared && tx.Bucket(name) != nil
		}
		prepared = prepared && tx.Bucket(about).Get(keyBegin) != nil
		return nil
	})
	if err != nil || prepared {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range all {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if tx.Bucket(about).Get(keyBegin) == nil {
			return tx.Bucket(about).Put(keyBegin, order(now))
		}
		return nil
	})
}

// Close lets go of the file.
func (s *Store) Close() error { return s.db.Close() }

// All calls each with every holding: those that have ended in the order of their ends, then the others.
func (s *Store) All(each func(*ledger.Holding) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		err := tx.Bucket(ended).ForEach(func(_, value []byte) error {
			h, err := decode(value)
			if err != nil {
				return err
			}
			return each(&h)
		})
		if err != nil {
			return err
		}
		return (&Tx{tx: tx}).Open(each)
	})
}

// Mark is how far something is followed: all up to a revision of the API server, as it was at a time.
type Mark struct {
	Revision string    `json:"revision"`
	Time     time.Time `json:"time"`
}

// Tx changes a ledger, all or nothing.
type Tx struct {
	tx *bbolt.Tx
	// mostPast is how many deleted jobs of a namespace are remembered, and mostPastBytes how large they may be, 0 for as always.
	mostPast, mostPastBytes int
}

// Update calls change, and keeps what it has changed unless it fails. Where the disk is full it fails as [IsFull] says, and room was
// made: what is tried again has it.
func (s *Store) Update(change func(*Tx) error) error {
	return s.update(func(tx *bbolt.Tx) error { return change(&Tx{tx: tx}) })
}

// Marks are how far each thing is followed, and the size of the file in bytes.
func (s *Store) Marks() (all map[string]Mark, size int64, err error) {
	all = map[string]Mark{}
	err = s.db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return tx.Bucket(marks).ForEach(func(of, value []byte) error {
			var mark Mark
			if err := json.Unmarshal(value, &mark); err != nil {
				return fmt.Errorf("reading how far %s were followed: %w", of, err)
			}
			all[string(of)] = mark
			return nil
		})
	})
	return all, size, err
}

// order is a time as bytes that are ordered as times are.
func order(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(max(t.Unix(), 0))) }

func orderOf(key []byte) time.Time {
	if len(key) < 8 {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(key)), 0).UTC()
}

// named is the beginning of the keys of what has a name in a namespace.
func named(namespace, name string) []byte {
	return append(append(append(append([]byte{}, namespace...), 0), name...), 0)
}

// key is the place of a holding that has ended among the others. What may have held for longer is found there, too.
func key(h *ledger.Holding) []byte {
	at := h.To
	if h.Until.After(at) {
		at = h.Until
	}
	return append(order(at), h.UID...)
}

// Holding returns what a pod holds, nil for nothing, and whether the pod is there and its holding has ended.
func (t *Tx) Holding(uid string) (h *ledger.Holding, over bool, err error) {
	if t.has(lasting, uid) {
		return nil, true, nil
	}
	value := t.tx.Bucket(open).Get([]byte(uid))
	if value == nil {
		return nil, false, nil
	}
	found, err := decode(value)
	return &found, false, err
}

// has reports whether a bucket of keys has one. Get does not tell an empty value from none.
func (t *Tx) has(bucket []byte, key string) bool {
	k, _ := t.tx.Bucket(bucket).Cursor().Seek([]byte(key))
	return string(k) == key
}

// Gone notes that a pod is no longer there: nothing more will be seen of it.
func (t *Tx) Gone(uid string) error { return t.tx.Bucket(lasting).Delete([]byte(uid)) }

// KeepLasting forgets the pods whose holdings have ended but for those that are still there.
func (t *Tx) KeepLasting(there map[string]bool) error {
	var gone []string
	err := t.tx.Bucket(lasting).ForEach(func(uid, _ []byte) error {
		if !there[string(uid)] {
			gone = append(gone, string(uid))
		}
		return nil
	})
	for _, uid := range gone {
		err = errors.Join(err, t.Gone(uid))
	}
	return err
}

// Put keeps a holding in place of what was known of it.
func (t *Tx) Put(h *ledger.Holding) error {
	if h.Job != "" && h.JobUID == "" {
		if err := t.tx.Bucket(orphans).Put(append(named(h.Namespace, h.Job), h.UID...), nil); err != nil {
			return err
		}
	}
	if !h.Ended() {
		return t.tx.Bucket(open).Put([]byte(h.UID), encode(h))
	}
	at := key(h)
	return errors.Join(
		t.tx.Bucket(open).Delete([]byte(h.UID)),
		t.tx.Bucket(lasting).Put([]byte(h.UID), nil),
		t.tx.Bucket(ended).Put(at, encode(h)),
		t.tx.Bucket(pods).Put(append(named(h.Namespace, h.Job), at...), nil),
	)
}

// Open calls each with all holdings that have not ended.
func (t *Tx) Open(each func(*ledger.Holding) error) error {
	return t.tx.Bucket(open).ForEach(func(_, value []byte) error {
		h, err := decode(value)
		if err != nil {
			return err
		}
		return each(&h)
	})
}

// Mark returns how far something was followed, false if it never was.
func (t *Tx) Mark(of string) (mark Mark, ok bool, err error) {
	value := t.tx.Bucket(marks).Get([]byte(of))
	if value == nil {
		return Mark{}, false, nil
	}
	err = json.Unmarshal(value, &mark)
	return mark, err == nil, err
}

// SetMark notes how far something is followed.
func (t *Tx) SetMark(of string, mark Mark) error {
	value, err := json.Marshal(mark)
	if err != nil {
		return fmt.Errorf("encoding a mark: %w", err)
	}
	return t.tx.Bucket(marks).Put([]byte(of), value)
}

// AddGap notes a time of which the history is not known.
func (t *Tx) AddGap(gap ledger.Gap) error {
	return t.tx.Bucket(gaps).Put(order(gap.To), order(gap.From))
}

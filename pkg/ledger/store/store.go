// Package store keeps a ledger in one file, with bbolt: each change is durable before the next one, even if the process is killed. Ended holdings are
// ordered by their end, so that a query for a time range reads only that range, and expired records are deleted without scanning the rest.
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

// lockTimeout is how long to wait for a file that another process has open.
const lockTimeout = 5 * time.Second

// Store is a ledger in a file.
type Store struct {
	db   *bbolt.DB
	path string
	// full says that the disk is full.
	full atomic.Bool
}

// Open opens a ledger. A new one begins at now.
func Open(path string, now time.Time) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("opening the ledger %s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w", path, err)
	}
	s := &Store{db: db, path: path}
	if err := errors.Join(s.prepareFile(now), s.ReserveSpace()); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the ledger %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepareFile initializes a new file. It writes nothing to an initialized one, because the disk may be full.
func (s *Store) prepareFile(now time.Time) error {
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
			return tx.Bucket(about).Put(keyBegin, timeKey(now))
		}
		return nil
	})
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// EachHolding calls each for every holding: the ended ones in the order of their ends, then the others.
func (s *Store) EachHolding(each func(*ledger.Holding) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		err := tx.Bucket(ended).ForEach(func(_, value []byte) error {
			h, err := decodeHolding(value)
			if err != nil {
				return err
			}
			return each(&h)
		})
		if err != nil {
			return err
		}
		return (&Tx{tx: tx}).EachOpen(each)
	})
}

// Mark is a position in the recorded history: a revision of the API server and its time.
type Mark struct {
	Revision string    `json:"revision"`
	Time     time.Time `json:"time"`
}

// Tx changes a ledger, all or nothing.
type Tx struct {
	tx *bbolt.Tx
	// mostPast and mostPastBytes override the limits of deleted jobs per namespace, 0 for the defaults.
	mostPast, mostPastBytes int
}

// Update runs change in a transaction, and commits it unless it fails. If the disk is full it fails as [IsFull] reports, but frees space, so that a
// retry succeeds.
func (s *Store) Update(change func(*Tx) error) error {
	return s.updateFile(func(tx *bbolt.Tx) error { return change(&Tx{tx: tx}) })
}

// Marks returns the position of each recorded resource, and the size of the file in bytes.
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

// timeKey encodes a time as bytes that sort by time.
func timeKey(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(max(t.Unix(), 0))) }

func keyTime(key []byte) time.Time {
	if len(key) < 8 {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(key)), 0).UTC()
}

// namePrefix returns the key prefix of a name in a namespace.
func namePrefix(namespace, name string) []byte {
	return append(append(append(append([]byte{}, namespace...), 0), name...), 0)
}

// holdingKey returns the key of an ended holding, sorted by the latest time at which it may have ended.
func holdingKey(h *ledger.Holding) []byte {
	at := h.To
	if h.Until.After(at) {
		at = h.Until
	}
	return append(timeKey(at), h.UID...)
}

// Holding returns the current holding of a pod, nil for none, and whether the pod still exists with an ended holding.
func (t *Tx) Holding(uid string) (h *ledger.Holding, over bool, err error) {
	if t.hasKey(lasting, uid) {
		return nil, true, nil
	}
	value := t.tx.Bucket(open).Get([]byte(uid))
	if value == nil {
		return nil, false, nil
	}
	found, err := decodeHolding(value)
	return &found, false, err
}

// hasKey reports whether a key-only bucket has a key. Get does not distinguish an empty value from none.
func (t *Tx) hasKey(bucket []byte, key string) bool {
	k, _ := t.tx.Bucket(bucket).Cursor().Seek([]byte(key))
	return string(k) == key
}

// ForgetPod records that a pod is deleted and will not be seen again.
func (t *Tx) ForgetPod(uid string) error { return t.tx.Bucket(lasting).Delete([]byte(uid)) }

// KeepLasting removes the pods with ended holdings that no longer exist.
func (t *Tx) KeepLasting(there map[string]bool) error {
	var gone []string
	err := t.tx.Bucket(lasting).ForEach(func(uid, _ []byte) error {
		if !there[string(uid)] {
			gone = append(gone, string(uid))
		}
		return nil
	})
	for _, uid := range gone {
		err = errors.Join(err, t.ForgetPod(uid))
	}
	return err
}

// Put stores a holding and replaces its previous record.
func (t *Tx) Put(h *ledger.Holding) error {
	if h.Job != "" && h.JobUID == "" {
		if err := t.tx.Bucket(orphans).Put(append(namePrefix(h.Namespace, h.Job), h.UID...), nil); err != nil {
			return err
		}
	}
	if !h.HasEnded() {
		return t.tx.Bucket(open).Put([]byte(h.UID), encodeHolding(h))
	}
	at := holdingKey(h)
	return errors.Join(
		t.tx.Bucket(open).Delete([]byte(h.UID)),
		t.tx.Bucket(lasting).Put([]byte(h.UID), nil),
		t.tx.Bucket(ended).Put(at, encodeHolding(h)),
		t.tx.Bucket(pods).Put(append(namePrefix(h.Namespace, h.Job), at...), nil),
	)
}

// EachOpen calls each for all holdings that have not ended.
func (t *Tx) EachOpen(each func(*ledger.Holding) error) error {
	return t.tx.Bucket(open).ForEach(func(_, value []byte) error {
		h, err := decodeHolding(value)
		if err != nil {
			return err
		}
		return each(&h)
	})
}

// Mark returns the position of a recorded resource, false if there is none.
func (t *Tx) Mark(of string) (mark Mark, ok bool, err error) {
	value := t.tx.Bucket(marks).Get([]byte(of))
	if value == nil {
		return Mark{}, false, nil
	}
	err = json.Unmarshal(value, &mark)
	return mark, err == nil, err
}

// SetMark stores the position of a recorded resource.
func (t *Tx) SetMark(of string, mark Mark) error {
	value, err := json.Marshal(mark)
	if err != nil {
		return fmt.Errorf("encoding a mark: %w", err)
	}
	return t.tx.Bucket(marks).Put([]byte(of), value)
}

// AddGap records a time range with unknown history.
func (t *Tx) AddGap(gap ledger.Gap) error {
	return t.tx.Bucket(gaps).Put(timeKey(gap.To), timeKey(gap.From))
}

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Buckets of output. A key of places consists of namespace, time of storing, pod UID and container, so the oldest of a namespace comes first. ages is
// ordered by time first, for the oldest of all.
var (
	outputs = []byte("outputs") // UID of the pod, container -> record
	places  = []byte("places")  // namespace, time, output -> size
	ages    = []byte("ages")    // time, output -> namespace
	ofJob   = []byte("ofjob")   // namespace, job, time, output -> nothing
	sizes   = []byte("sizes")   // namespace -> bytes; "" of all
)

// namespaceShare is the divisor of the budget for one namespace, so that no namespace displaces all others.
const namespaceShare = 4

// record is an output with its text compressed separately.
type record struct {
	ledger.Output
	Packed []byte `json:"packed"`
}

func outputID(o *ledger.Output) []byte { return append(append([]byte(o.PodUID), 0), o.Container...) }

// HasOutput reports whether the complete output of a container is stored.
func (s *Store) HasOutput(podUID, container string) (found bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		known, err := recordOf(tx, outputID(&ledger.Output{PodUID: podUID, Container: container}))
		found = known != nil && !known.Incomplete
		return err
	})
	return found, err
}

// recordOf returns the stored output of a container, nil for none.
func recordOf(tx *bbolt.Tx, id []byte) (*record, error) {
	value := tx.Bucket(outputs).Get(id)
	if value == nil {
		return nil, nil
	}
	known := &record{}
	if err := json.Unmarshal(value, known); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return known, nil
}

// PutOutput stores output in place of the container's previous one, unless that has more. It then deletes the oldest output while the total exceeds
// the budget in bytes, or that of its namespace exceeds its share.
func (s *Store) PutOutput(o ledger.Output, budget int64) error {
	packed, err := packText(o.Text)
	if err != nil {
		return err
	}
	length := len(o.Text)
	o.Text = ""
	value, err := json.Marshal(record{Output: o, Packed: packed})
	if err != nil {
		return fmt.Errorf("encoding output: %w", err)
	}
	return s.updateFile(func(tx *bbolt.Tx) error {
		id := outputID(&o)
		if more, err := saysMore(tx, id, &o, length); err != nil || more {
			return err
		}
		if err := dropOutput(tx, id); err != nil {
			return err
		}
		at := timeKey(o.Kept)
		err := errors.Join(
			tx.Bucket(outputs).Put(id, value),
			tx.Bucket(places).Put(placeKey(o.Namespace, at, id), nil),
			tx.Bucket(ages).Put(append(bytes.Clone(at), id...), []byte(o.Namespace)),
			tx.Bucket(ofJob).Put(append(append(namePrefix(o.Namespace, o.Job), at...), id...), nil),
			addSize(tx, o.Namespace, int64(len(value))),
		)
		if err != nil {
			return err
		}
		return shrinkToBudget(tx, o.Namespace, budget)
	})
}

// saysMore reports whether the stored output has more than a new one of a length: an interrupted one does not replace a complete or longer one.
func saysMore(tx *bbolt.Tx, id []byte, o *ledger.Output, length int) (bool, error) {
	if !o.Incomplete {
		return false, nil
	}
	known, err := recordOf(tx, id)
	if err != nil || known == nil || !known.Incomplete {
		return known != nil, err
	}
	text, err := unpackText(known.Packed)
	return len(text) > length, err
}

func placeKey(namespace string, at, id []byte) []byte {
	return append(append(append([]byte(namespace), 0), at...), id...)
}

func sizeOf(tx *bbolt.Tx, namespace string) int64 {
	value := tx.Bucket(sizes).Get(append([]byte{'='}, namespace...))
	if len(value) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value))
}

// addSize updates the size of a namespace's output, and the total.
func addSize(tx *bbolt.Tx, namespace string, by int64) (err error) {
	for _, of := range []string{namespace, ""} {
		left := max(0, sizeOf(tx, of)+by)
		key := append([]byte{'='}, of...)
		if left == 0 {
			err = errors.Join(err, tx.Bucket(sizes).Delete(key))
			continue
		}
		err = errors.Join(err, tx.Bucket(sizes).Put(key, binary.BigEndian.AppendUint64(nil, uint64(left))))
	}
	return err
}

// shrinkOutput deletes the oldest output of a namespace until it has at most a number of bytes.
func shrinkOutput(tx *bbolt.Tx, namespace string, most int64) error {
	for sizeOf(tx, namespace) > most {
		prefix := append([]byte(namespace), 0)
		k, _ := tx.Bucket(places).Cursor().Seek(prefix)
		if !bytes.HasPrefix(k, prefix) {
			break
		}
		if err := dropOutput(tx, bytes.Clone(k[len(prefix)+8:])); err != nil {
			return err
		}
	}
	return nil
}

func shrinkToBudget(tx *bbolt.Tx, namespace string, budget int64) error {
	if err := shrinkOutput(tx, namespace, budget/namespaceShare); err != nil {
		return err
	}
	for sizeOf(tx, "") > budget {
		k, _ := tx.Bucket(ages).Cursor().First()
		if k == nil {
			break
		}
		if err := dropOutput(tx, bytes.Clone(k[8:])); err != nil {
			return err
		}
	}
	return nil
}

// dropOutput deletes an output; a missing one is no error.
func dropOutput(tx *bbolt.Tx, id []byte) error {
	o, err := recordOf(tx, id)
	if err != nil || o == nil {
		return err
	}
	size, at := int64(len(tx.Bucket(outputs).Get(id))), timeKey(o.Kept)
	return errors.Join(
		tx.Bucket(places).Delete(placeKey(o.Namespace, at, id)),
		tx.Bucket(ages).Delete(append(bytes.Clone(at), id...)),
		tx.Bucket(ofJob).Delete(append(append(namePrefix(o.Namespace, o.Job), at...), id...)),
		tx.Bucket(outputs).Delete(id),
		addSize(tx, o.Namespace, -size),
	)
}

// OutputQuery selects the output of a job, optionally of one pod and of one container.
type OutputQuery struct {
	Namespace           Namespace
	Job, Pod, Container string
	// Most bounds the total bytes of the texts.
	Most int
}

// Outputs returns the stored output of a job, the last first. more reports whether output beyond the limit exists.
func (s *Store) Outputs(q OutputQuery) (out []ledger.Output, more bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		prefix := namePrefix(q.Namespace.Name, q.Job)
		keys := keysWith(tx.Bucket(ofJob), prefix, prefix)
		size := 0
		for i := len(keys) - 1; i >= 0; i-- {
			o, err := recordOf(tx, keys[i][len(prefix)+8:])
			if err != nil {
				return err
			}
			if o == nil {
				return errMalformed
			}
			if !q.Namespace.Has(o.Namespace, o.Created) || q.Pod != "" && q.Pod != o.Pod || q.Container != "" && q.Container != o.Container {
				continue
			}
			text, err := unpackText(o.Packed)
			if err != nil {
				return err
			}
			if size += len(text); size > q.Most && len(out) > 0 {
				more = true
				return nil
			}
			o.Text = text
			out = append(out, o.Output)
		}
		return nil
	})
	return out, more, err
}

func packText(text string) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("packing output: %w", err)
	}
	return out.Bytes(), nil
}

// mostUnpacked bounds the decompressed size of a record.
const mostUnpacked = 16 << 20

func unpackText(packed []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, mostUnpacked))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	return string(text), nil
}

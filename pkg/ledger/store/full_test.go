package store

import (
	"errors"
	"fmt"

	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// hold writes ended holdings of a namespace, the older the smaller their number.
func hold(t *testing.T, s *Store, namespace string, from, to int) error {
	t.Helper()
	return s.Update(func(tx *Tx) error {
		for i := from; i < to; i++ {
			h := ledger.Holding{
				UID: fmt.Sprintf("%s-%d", namespace, i), Namespace: namespace, Pod: "p", Job: "j", JobUID: "J", User: strings.Repeat("u", 500), Milli: 1000,
				From: noon, To: noon.Add(time.Duration(i+1) * time.Second),
			}
			if err := tx.Put(&h); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRoomIsMadeOfWhatIsHeaviest: who fills the disk loses their own, the oldest first, and others lose nothing.
func TestRoomIsMadeOfWhatIsHeaviest(t *testing.T) {
	s := opened(t)
	if err := errors.Join(hold(t, s, "many", 0, 800), hold(t, s, "few", 0, 100)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for _, namespace := range []string{"many", "few"} {
			if namespace == "few" && i > 0 {
				continue
			}
			out := ledger.Output{Namespace: namespace, Job: "j", Pod: "p", PodUID: fmt.Sprint(namespace, i), Container: "c", Kept: noon.Add(time.Duration(i) * time.Second), Text: fmt.Sprint("text ", i)}
			if err := s.PutOutput(out, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(deleted(s, "many", 80), deleted(s, "few", 8)); err != nil {
		t.Fatal(err)
	}
	err := s.Update(func(*Tx) error { return &os.PathError{Op: "write", Path: "ledger.db", Err: syscall.ENOSPC} })
	if !IsFull(err) || !s.IsDiskFull() {
		t.Fatalf("error %v, full: %t", err, s.IsDiskFull())
	}
	held, err := s.countHoldings()
	if err != nil || held["many"] != 700 || held["few"] != 100 {
		t.Errorf("%v are left, error %v, want 700 of those that had most", held, err)
	}
	oldest, _, err := s.oldestOf(t, "many")
	if err != nil || !oldest.To.Equal(noon.Add(101*time.Second)) {
		t.Errorf("the oldest that is left ended at %s, error %v", oldest.To, err)
	}
	for namespace, want := range map[string]int{"many": 8, "few": 1} {
		outputs, _, err := s.Outputs(OutputQuery{Namespace: Namespace{Name: namespace}, Job: "j", Most: 1 << 20})
		if err != nil || len(outputs) < want || namespace == "many" && len(outputs) == 10 {
			t.Errorf("%d outputs of %s are left, error %v", len(outputs), namespace, err)
		}
	}
	for namespace, want := range map[string]int{"many": 70, "few": 8} {
		if err := s.Update(func(tx *Tx) error {
			if count := countOf(tx.tx, namespace); count != want {
				t.Errorf("%d deleted jobs of %s are left, want %d", count, namespace, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ReserveSpace(); err != nil || s.IsDiskFull() {
		t.Errorf("with room on the disk: error %v, full: %t", err, s.IsDiskFull())
	}
}

// deleted writes jobs of a namespace that are deleted, whose texts are all that a user may write.
func deleted(s *Store, namespace string, count int) error {
	return s.Update(func(tx *Tx) error {
		for i := range count {
			text := strings.Repeat("\x01<\u2028", 300)
			job := ledger.Job{
				UID: fmt.Sprintf("%s-job-%d", namespace, i), Namespace: namespace, Name: fmt.Sprint("job-", i), User: text, Reason: text, Message: text,
				Pool: text, Status: "Cancelled", Created: noon, Finished: noon, Deleted: noon.Add(time.Duration(i) * time.Second),
			}
			if err := tx.PutJob(&job); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestDeletedJobsAreBoundedInBytes, whatever their users have written, and nobody's for those of others.
func TestDeletedJobsAreBoundedInBytes(t *testing.T) {
	s := opened(t)
	if err := errors.Join(deleted(s, "few", 10), deleted(s, "many", 500)); err != nil {
		t.Fatal(err)
	}
	err := s.Update(func(tx *Tx) error {
		tx.mostPastBytes = 100 << 10
		job := ledger.Job{UID: "last", Namespace: "many", Name: "last", Status: "Cancelled", Created: noon, Finished: noon, Deleted: noon.Add(time.Hour)}
		return tx.PutJob(&job)
	})
	if err != nil {
		t.Fatal(err)
	}
	size := map[string]int{}
	count := map[string]int{}
	err = s.Update(func(tx *Tx) error {
		return tx.tx.Bucket(jobs).ForEach(func(uid, value []byte) error {
			job, err := tx.Job(string(uid))
			if err == nil {
				size[job.Namespace] += len(value)
				count[job.Namespace]++
			}
			return err
		})
	})
	if err != nil || size["many"] > 100<<10 || count["many"] < 30 || count["few"] != 10 {
		t.Errorf("%v jobs of %v bytes are left, error %v", count, size, err)
	}
}

// oldestOf is the oldest holding of a namespace.
func (s *Store) oldestOf(t *testing.T, namespace string) (oldest ledger.Holding, found bool, err error) {
	t.Helper()
	err = s.EachHolding(func(h *ledger.Holding) error {
		if !found && h.Namespace == namespace {
			oldest, found = *h, true
		}
		return nil
	})
	return oldest, found, err
}

// TestANamespaceHasItsPart of the file, whenever what is too old is taken away.
func TestANamespaceHasItsPart(t *testing.T) {
	s := opened(t)
	if err := errors.Join(hold(t, s, "many", 0, 7000), hold(t, s, "few", 0, 10)); err != nil {
		t.Fatal(err)
	}
	held, err := s.countHoldings()
	if err != nil {
		t.Fatal(err)
	}
	if count, err := s.dropExcess(held, 1000); count != 6000 || err != nil { // in more than one change
		t.Errorf("%d taken away, error %v", count, err)
	}
	if held, err = s.countHoldings(); err != nil || held["many"] != 1000 || held["few"] != 10 {
		t.Errorf("%v are left, error %v", held, err)
	}
}

// TestAFullDiskEndsNothing: on a file system that is full to its last byte a ledger is opened, and goes on in the room that it makes.
func TestAFullDiskEndsNothing(t *testing.T) {
	t.Run("of this version", func(t *testing.T) { fillDisk(t, func(*Store) error { return nil }, 5000) })
	t.Run("of a version that kept no room", func(t *testing.T) {
		fillDisk(t, func(s *Store) error {
			return errors.Join(s.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(pastBytes) }), os.Remove(s.path+reserveSuffix))
		}, 1000)
	})
}

// fillDisk fills the disk of a ledger that was changed while it was open, and goes on: at least so much is left of who has most.
func fillDisk(t *testing.T, change func(*Store) error, least int) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("no file system of its own: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	path := filepath.Join(dir, "ledger.db")
	s, err := Open(path, noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hold(t, s, "few", 0, 50), hold(t, s, "many", 0, 5000), change(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	others, err := os.Create(filepath.Join(dir, "others"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // to the last byte
		var written int
		written, err = others.Write(make([]byte, 4096))
		if written == 0 {
			break
		}
	}
	if !IsFull(err) {
		t.Fatal(err)
	}
	_ = others.Close()
	if s, err = Open(path, noon); err != nil {
		t.Fatalf("a ledger that cannot be started again: %v", err)
	}
	defer func() { _ = s.Close() }()
	failed := 0
	for i := 5000; i < 60_000; i += 100 {
		err := hold(t, s, "many", i, i+100)
		if IsFull(err) {
			failed++
			err = hold(t, s, "many", i, i+100)
		}
		if err != nil {
			t.Fatalf("the ledger ends at %d: %v", i, err)
		}
	}
	held, err := s.countHoldings()
	if err != nil || failed == 0 || !s.IsDiskFull() || held["few"] != 50 || held["many"] < least {
		t.Errorf("full %d times and now: %t; left: %v, error %v", failed, s.IsDiskFull(), held, err)
	}
	t.Logf("room was made %d times; left: %v", failed, held)
	if err := errors.Join(os.Remove(filepath.Join(dir, "others")), s.ReserveSpace()); err != nil || s.IsDiskFull() {
		t.Logf("with little room: %v, full: %t", err, s.IsDiskFull())
	}
}

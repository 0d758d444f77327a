package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func hour(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Hour))) }

func opened(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "ledger.db"), noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t testing.TB, s *Store, holdings ...ledger.Holding) {
	t.Helper()
	err := s.Update(func(tx *Tx) error {
		for i := range holdings {
			if err := tx.Put(&holdings[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func held(uid, namespace, user string, milli int64, from, to, until float64) ledger.Holding {
	h := ledger.Holding{UID: uid, Namespace: namespace, Pod: "p-" + uid, Job: "j-" + uid, JobUID: "J" + uid, User: user, Node: "n", Pool: "default",
		GPUType: "A", Milli: milli, From: hour(from), GPUs: []ledger.GPU{{UUID: "GPU-1", Index: 1, MemoryMiB: 5}}, Outcome: "Failed", ExitCode: -1}
	if to >= 0 {
		h.To = hour(to)
	}
	if until > 0 {
		h.Until = hour(until)
	}
	return h
}

func TestWhatIsPutIsRead(t *testing.T) {
	s := opened(t)
	h := held("1", "a", "ada", 2000, 0, -1, 0)
	put(t, s, h)
	check := func(want *ledger.Holding, wantOver bool) {
		t.Helper()
		err := s.Update(func(tx *Tx) error {
			got, over, err := tx.Holding("1")
			if diff := cmp.Diff(want, got); diff != "" || over != wantOver {
				t.Errorf("over %t, want %t; holding (-want +got):\n%s", over, wantOver, diff)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check(&h, false)
	h.To = hour(3)
	put(t, s, h)
	check(nil, true)
	if err := s.Update(func(tx *Tx) error {
		return tx.PutJob(&ledger.Job{UID: "J1", Namespace: "a", Name: "j-1", Created: hour(0)})
	}); err != nil {
		t.Fatal(err)
	}
	_, got, err := s.Job(Namespace{Name: "a"}, "J1")
	if job, _, err := s.Job(Namespace{Name: "b"}, "J1"); job != nil || err != nil {
		t.Errorf("a job of another namespace is read: %v, error %v", job, err)
	}
	if diff := cmp.Diff([]ledger.Holding{h}, got); diff != "" || err != nil {
		t.Errorf("error %v; holdings of the job (-want +got):\n%s", err, diff)
	}
	if err := s.Update(func(tx *Tx) error { return tx.KeepLasting(map[string]bool{}) }); err != nil {
		t.Fatal(err)
	}
	check(nil, false)
}

func TestUsage(t *testing.T) {
	s := opened(t)
	put(t, s,
		held("1", "a", "ada", 2000, 0, 3, 0),  // 6
		held("2", "a", "bob", 1000, 1, -1, 0), // until now
		held("3", "b", "ada", 500, -5, 1, 0),  // 0.5 of it after noon
		held("4", "b", "ada", 1000, 0, 1, 2),  // 1, perhaps 2
	)
	early := held("5", "b", "eve", 4000, -9, 0, 0)
	early.To = hour(-8)
	put(t, s, early)
	if err := s.Update(func(tx *Tx) error { return tx.AddGap(ledger.Gap{From: hour(1), To: hour(2)}) }); err != nil {
		t.Fatal(err)
	}
	query := func(q UsageQuery) []ledger.Sum {
		t.Helper()
		q.Most = 9
		got, err := s.Usage(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Gaps) != 1 {
			t.Errorf("gaps: %v", got.Gaps)
		}
		return got.Items
	}
	user := func(u string) map[ledger.Key]string { return map[ledger.Key]string{ledger.ByUser: u} }
	tests := map[string]struct {
		q    UsageQuery
		want []ledger.Sum
	}{
		"by user": {q: UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(4)}, want: []ledger.Sum{
			{Keys: user("ada"), GPUHours: 7.5, UncertainGPUHours: 1, Pods: 3}, {Keys: user("bob"), GPUHours: 3, Pods: 1, Running: 1}}},
		"a part of the time": {q: UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(1.5), To: hour(2)}, want: []ledger.Sum{
			{Keys: user("ada"), GPUHours: 1, UncertainGPUHours: 0.5, Pods: 2}, {Keys: user("bob"), GPUHours: 0.5, Pods: 1, Running: 1}}},
		"a namespace": {q: UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(4), Namespaces: []Namespace{{Name: "b"}}}, want: []ledger.Sum{
			{Keys: user("ada"), GPUHours: 1.5, UncertainGPUHours: 1, Pods: 2}}},
		"a user": {q: UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(4), User: "bob"}, want: []ledger.Sum{
			{Keys: user("bob"), GPUHours: 3, Pods: 1, Running: 1}}},
		"no pool of that name": {q: UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(4), Pool: "x"}, want: []ledger.Sum{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, query(tc.q)); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFinishedJobs(t *testing.T) {
	s := opened(t)
	job := func(uid, name, user string, created, finished float64) *ledger.Job {
		j := &ledger.Job{UID: uid, Namespace: "a", Name: name, User: user, Status: "Running", Created: hour(created)}
		if finished > 0 {
			j.Finished, j.Status = hour(finished), "Succeeded"
		}
		return j
	}
	for _, j := range []*ledger.Job{job("1", "x", "ada", 0, 0), job("1", "x", "ada", 0, 2), job("2", "x", "bob", 3, 4), job("3", "y", "ada", 3, 0), job("4", "z", "ada", 3, 9)} {
		if err := s.Update(func(tx *Tx) error { return tx.PutJob(j) }); err != nil {
			t.Fatal(err)
		}
	}
	names := func(q JobQuery) (out []string, more bool) {
		t.Helper()
		got, more, err := s.FinishedJobs(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range got {
			out = append(out, j.UID)
		}
		return out, more
	}
	tests := map[string]struct {
		q    JobQuery
		want []string
		more bool
	}{
		"the last first":     {q: JobQuery{From: hour(0), To: hour(10), Most: 9}, want: []string{"4", "2", "1"}},
		"no more than asked": {q: JobQuery{From: hour(0), To: hour(10), Most: 2}, want: []string{"4", "2"}, more: true},
		"within a time":      {q: JobQuery{From: hour(3), To: hour(4), Most: 9}, want: []string{"2"}},
		"of a name":          {q: JobQuery{Name: "x", From: hour(0), To: hour(10), Most: 9}, want: []string{"2", "1"}},
		"of a user":          {q: JobQuery{User: "bob", From: hour(0), To: hour(10), Most: 9}, want: []string{"2"}},
		"of no namespace":    {q: JobQuery{Namespaces: []Namespace{{Name: "b"}}, From: hour(0), To: hour(10), Most: 9}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, more := names(tc.q)
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more {
				t.Errorf("more %t, want %t; jobs (-want +got):\n%s", more, tc.more, diff)
			}
		})
	}
	for at, want := range map[float64]string{0.5: "1", 2.5: "1", 3: "2"} {
		err := s.Update(func(tx *Tx) error {
			got, err := tx.JobAt("a", "x", hour(at))
			if err == nil && (got == nil || got.UID != want) {
				t.Errorf("the job x at %v is %v, want %s", at, got, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrim(t *testing.T) {
	s := opened(t)
	for i := range 3 {
		put(t, s, held(fmt.Sprint(i), "a", "ada", 1000, 0, float64(i+1), 0))
		err := s.Update(func(tx *Tx) error {
			return tx.PutJob(&ledger.Job{UID: fmt.Sprint("J", i), Namespace: "a", Name: fmt.Sprint("j-", i), Created: hour(0), Finished: hour(float64(i + 1)), Deleted: hour(float64(i + 1))})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, held("9", "a", "ada", 1000, 0, -1, 0))
	if n, err := s.Trim(hour(2)); n != 2 || err != nil {
		t.Fatalf("took %d away, error %v", n, err)
	}
	got, err := s.Usage(UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(4), Most: 9})
	if err != nil || got.Items[0].Pods != 3 {
		t.Errorf("%v is left, error %v, want 2 that ended and 1 that did not", got.Items, err)
	}
	if jobs, _, err := s.FinishedJobs(JobQuery{From: hour(0), To: hour(9), Most: 9}); len(jobs) != 2 || err != nil {
		t.Errorf("%d jobs are left, error %v", len(jobs), err)
	}
	if job, _, err := s.Job(Namespace{Name: "a"}, "J0"); job != nil || err != nil {
		t.Errorf("%v is left of what was taken away, error %v", job, err)
	}
}

// TestADamagedRecordIsToldOf cuts a record at every byte: the answer is an error, never a crash.
func TestADamagedRecordIsToldOf(t *testing.T) {
	h := held("1", "a", "ada", 2000, 0, 3, 0)
	whole := encodeHolding(&h)
	for n := range whole {
		if _, err := decodeHolding(whole[:n]); !errors.Is(err, errMalformed) {
			t.Fatalf("of %d bytes: %v", n, err)
		}
	}
	huge := append(append([]byte{}, whole[:len(whole)-1-1-6-1]...), 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)
	if _, err := decodeHolding(huge); !errors.Is(err, errMalformed) {
		t.Errorf("a number of GPUs without end: %v", err)
	}
}

func TestOneProcessHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := Open(path, noon)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := Open(path, noon); err == nil {
		t.Error("two have it")
	}
}

// BenchmarkUsage sums up a million holdings of a month.
func BenchmarkUsage(b *testing.B) {
	const rows = 1_000_000
	s := opened(b)
	for i := 0; i < rows; {
		batch := make([]ledger.Holding, 0, 10000)
		for ; len(batch) < cap(batch); i++ {
			from := float64(i) / rows * 720
			h := held(fmt.Sprintf("%08d-3b1c-4e0f-9c5e-0123456789ab", i), fmt.Sprintf("team-%d", i/4%50), fmt.Sprintf("user-%d", i%200), 1000, from, from+1, 0)
			h.Job = fmt.Sprintf("job-%d", i/4)
			batch = append(batch, h)
		}
		put(b, s, batch...)
	}
	for _, by := range [][]ledger.Key{{ledger.ByUser}, {ledger.ByNamespace, ledger.ByPool, ledger.ByGPUType}, {ledger.ByNamespace, ledger.ByJob}} {
		b.Run(fmt.Sprint(by), func(b *testing.B) {
			for b.Loop() {
				got, err := s.Usage(UsageQuery{By: by, From: hour(0), To: hour(721), Most: 10000})
				if err != nil || len(got.Items) == 0 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/question")
		})
	}
}

// TestUsageWhileNobodyLooks: what is held is not known to be held on when the cluster was not followed for a while, and once it is again,
// that is forgotten.
func TestUsageWhileNobodyLooks(t *testing.T) {
	s := opened(t)
	put(t, s, held("1", "a", "ada", 1000, 0, -1, 0), held("2", "a", "bob", 1000, 0, 1, 0))
	sums := func(adaHours, adaUncertain float64) []ledger.Sum {
		out := []ledger.Sum{
			{Keys: map[ledger.Key]string{ledger.ByUser: "ada"}, GPUHours: adaHours, UncertainGPUHours: adaUncertain, Pods: 1, Running: 1},
			{Keys: map[ledger.Key]string{ledger.ByUser: "bob"}, GPUHours: 1, Pods: 1},
		}
		return out
	}
	tests := map[string]struct {
		until, to float64 // hours: followed until, asked about until
		want      []ledger.Sum
		gaps      []ledger.Gap
	}{
		"it was followed just now":      {until: 4, to: 4, want: sums(4, 0)},
		"a minute ago":                  {until: 4 - 1./60, to: 4, want: sums(4, 0)},
		"an hour and a half ago":        {until: 2.5, to: 4, want: sums(2.5, 1.5), gaps: []ledger.Gap{{From: hour(2.5), To: hour(4)}}},
		"of a time that is known":       {until: 2.5, to: 2, want: sums(2, 0)},
		"before any of it was recorded": {until: -1, to: 4, want: []ledger.Sum{sums(0, 0)[1], {Keys: sums(0, 0)[0].Keys, UncertainGPUHours: 4, Pods: 1, Running: 1}}, gaps: []ledger.Gap{{From: hour(-1), To: hour(4)}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := s.Update(func(tx *Tx) error { return tx.SetMark("pods", Mark{Time: hour(tc.until)}) }); err != nil {
				t.Fatal(err)
			}
			got, err := s.Usage(UsageQuery{By: []ledger.Key{ledger.ByUser}, From: hour(0), To: hour(tc.to), Most: 9, Follows: "pods"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Items); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.gaps, got.Gaps); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheJobOfANameAtATime among very many that had the name: who makes jobs of one name all the time keeps the recording of nobody's.
func TestTheJobOfANameAtATime(t *testing.T) {
	s := opened(t)
	const many = 20_000
	err := s.Update(func(tx *Tx) error {
		for i := range many {
			uid := fmt.Sprintf("%05d", i)
			job := ledger.Job{UID: uid, Namespace: "a", Name: "j", Created: noon.Add(time.Duration(i) * time.Second)}
			if err := tx.PutJob(&job); err != nil {
				return err
			}
		}
		return errors.Join(
			tx.PutJob(&ledger.Job{UID: "other", Namespace: "a", Name: "i", Created: noon}),
			tx.PutJob(&ledger.Job{UID: "longer", Namespace: "a", Name: "j-2", Created: noon}))
	})
	if err != nil {
		t.Fatal(err)
	}
	for second, want := range map[int]string{-1: "", 0: "00000", 7: "00007", many + 500: fmt.Sprintf("%05d", many-1)} {
		if got, err := s.JobAt("a", "j", noon.Add(time.Duration(second)*time.Second)); err != nil || got != want {
			t.Errorf("at second %d it is %q, want %q, error %v", second, got, want, err)
		}
	}
	if got, err := s.JobAt("a", "k", hour(9)); err != nil || got != "" {
		t.Errorf("of a name without a job it is %q, error %v", got, err)
	}
	began := time.Now()
	for range 5000 {
		if _, err := s.JobAt("a", "j", hour(99)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("5,000 times one of %d is found in %s, want 5 s", many, took)
	}
}

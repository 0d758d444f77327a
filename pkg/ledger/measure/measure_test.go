package measure

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

var ten = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return ten.Add(time.Duration(minutes * float64(time.Minute))) }

func TestDue(t *testing.T) {
	tests := map[string]struct {
		measured, followed, now time.Time
		from                    time.Time
		steps                   int
	}{
		"five minutes are over":                  {measured: at(0), followed: at(9), now: at(7), from: at(0), steps: 5},
		"what is over is not yet told":           {measured: at(0), followed: at(9), now: at(6.9), steps: 0},
		"who holds what is not yet known":        {measured: at(0), followed: at(4.5), now: at(30), steps: 0},
		"who holds what is known up to a moment": {measured: at(0), followed: at(6.5), now: at(30), from: at(0), steps: 6},
		"nothing is followed":                    {measured: at(0), now: at(30), steps: 0},
		"no more than may be asked at once":      {measured: at(0), followed: at(90), now: at(90), from: at(0), steps: 15},
		"never before: a day, and no more":       {followed: at(90), now: at(90), from: at(88).Add(-24 * time.Hour), steps: 15},
		"away for longer than a day":             {measured: at(-9000), followed: at(90), now: at(90), from: at(88).Add(-24 * time.Hour), steps: 15},
		"a clock that was ahead":                 {measured: at(500), followed: at(90), now: at(90), steps: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			from, steps := dueSteps(tc.measured, tc.followed, tc.now, mostSteps)
			if steps != tc.steps || steps > 0 && !from.Equal(tc.from) {
				t.Errorf("asks about %d steps from %v, want %d from %v", steps, from, tc.steps, tc.from)
			}
		})
	}
}

// question is one to Prometheus about the loads of all GPUs.
type question struct {
	start time.Time
	steps int
	now   time.Time
}

// series are what Prometheus says of one GPU: labels, and a load for each minute that ends at a time; NaN is no load.
type series struct {
	labels map[string]string
	load   func(minute time.Time) float64
}

// busy is how busy both cards are in the minute that ends at a time: 20 and 80, and 50 on average.
func busy(minute time.Time) float64 { return 20 + 60*float64(minute.Minute()%2) }

func card(uuid string, index int) map[string]string {
	return map[string]string{"UUID": uuid, "gpu": strconv.Itoa(index), "Hostname": "n"}
}

func good(question) []series {
	return []series{{card("GPU-a", 0), busy}, {card("GPU-b", 1), busy}, {card("GPU-c", 2), func(time.Time) float64 { return 100 }}}
}

// write answers a question as Prometheus does.
func write(w http.ResponseWriter, q question, all []series) {
	result := []any{}
	for _, one := range all {
		values := [][]any{}
		for i := range q.steps {
			end := q.start.Add(time.Duration(i) * step)
			text := strconv.FormatFloat(one.load(end), 'g', -1, 64)
			values = append(values, []any{end.Unix(), text})
		}
		result = append(result, map[string]any{"metric": one.labels, "values": values})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
}

// TestWhatAPrometheusTells of a pod that held two GPUs from 30 seconds after ten to 30 seconds before eleven, minute by minute: 58 of
// its 59 minutes are its own. The ledger is started again from time to time.
func TestWhatAPrometheusTells(t *testing.T) {
	const all = 58.0 / 59 * 100
	tells := func(say func(question) []series) func(http.ResponseWriter, question) {
		return func(w http.ResponseWriter, q question) { write(w, q, say(q)) }
	}
	relabelled := func(labels ...map[string]string) func(http.ResponseWriter, question) {
		return tells(func(question) (out []series) {
			for _, l := range labels {
				out = append(out, series{l, busy})
			}
			return out
		})
	}
	// outage answers badly until it is twenty past eleven, and well then.
	outage := func(bad func(http.ResponseWriter)) func(http.ResponseWriter, question) {
		return func(w http.ResponseWriter, q question) {
			if q.now.Before(at(80)) {
				bad(w)
				return
			}
			write(w, q, good(q))
		}
	}
	alone := func(load func(minute time.Time) float64) func(http.ResponseWriter, question) {
		return tells(func(question) []series { return []series{{card("GPU-a", 0), load}} })
	}
	says := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(text)) }
	}
	tests := map[string]struct {
		answer   func(http.ResponseWriter, question)
		none     bool
		busy     float64
		measured float64
	}{
		"all of it":            {answer: tells(good), busy: 50, measured: all},
		"nothing":              {answer: relabelled(), none: true},
		"one of the two cards": {answer: relabelled(card("GPU-b", 1)), busy: 50, measured: all / 2},
		"places alone": {
			answer: relabelled(map[string]string{"gpu": "0", "instance": "n:9400"}, map[string]string{"gpu": "1", "instance": "n:9400"}),
			busy:   50, measured: all,
		},
		"other cards": {answer: relabelled(card("GPU-x", 5), map[string]string{"UUID": "GPU-y", "gpu": "1", "Hostname": "m"}), none: true},
		"no labels":   {answer: relabelled(map[string]string{}, map[string]string{"gpu": "zero"}), none: true},
		"no number in every second minute": {answer: alone(func(minute time.Time) float64 {
			if minute.Minute()%2 == 0 {
				return math.NaN()
			}
			return busy(minute)
		}), busy: 80, measured: all / 4},
		"more than a GPU can be":      {answer: alone(func(time.Time) float64 { return 9223372036854775794 }), none: true},
		"less than nothing":           {answer: alone(func(time.Time) float64 { return -1 }), none: true},
		"a card twice":                {answer: relabelled(card("GPU-a", 0), card("GPU-a", 0), card("GPU-b", 1)), busy: 50, measured: all},
		"errors for a while":          {answer: outage(func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }), busy: 50, measured: all},
		"a page to log in":            {answer: outage(says("<html>")), busy: 50, measured: all},
		"answers that lack something": {answer: outage(says(`{"status":"success","warnings":["a store is away"],"data":{"resultType":"matrix","result":[]}}`)), busy: 50, measured: all},
		"answers of another kind":     {answer: outage(says(`{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)), busy: 50, measured: all},
		"answers that are too large": {answer: func(w http.ResponseWriter, q question) {
			if q.steps > 3 {
				_, _ = w.Write(make([]byte, gpumetrics.MaxAnswer+1))
				return
			}
			write(w, q, good(q))
		}, busy: 50, measured: all},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := follow(t, tc.answer)
			switch {
			case got == nil:
				t.Error("nothing is said")
			case tc.none && (got.Utilization != nil || got.Measured != 0):
				t.Errorf("it is said to be %v, want nothing", *got)
			case !tc.none && (got.Utilization == nil || math.Abs(*got.Utilization-tc.busy) > 0.01 || math.Abs(got.Measured-tc.measured) > 0.01):
				t.Errorf("it is said to be %v, want %v busy of %v", *got, tc.busy, tc.measured)
			}
		})
	}
}

// follow has a pod measured from ten to twelve by a Prometheus, and returns what the ledger says of its job.
func follow(t *testing.T, answer func(http.ResponseWriter, question)) *ledger.Efficiency {
	t.Helper()
	var now atomic.Int64
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := question{start: stamp(t, r.FormValue("start")), now: time.Unix(now.Load(), 0)}
		q.steps = int(stamp(t, r.FormValue("end")).Sub(q.start)/step) + 1
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		answer(w, q)
	}))
	defer server.Close()
	book := opened(t)
	client, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m *Measurer
	for minute := range 121 {
		now.Store(at(float64(minute)).Unix())
		if minute%7 == 0 {
			m = &Measurer{Book: book, Prometheus: client, Pods: "pods", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(now.Load(), 0) }}
		}
		seen(t, book, minute)
		before := asked.Load()
		if _, err := m.measureNext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked.Load() > before+1 {
			t.Fatalf("%d questions at once", asked.Load()-before)
		}
	}
	job, held, err := book.Job(store.Namespace{Name: "team"}, "J")
	if err != nil || job == nil || len(held) != 1 {
		t.Fatalf("the job is %v, its pods %v, error %v", job, held, err)
	}
	return job.Efficiency
}

func stamp(t *testing.T, text string) time.Time {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Errorf("a time of a question: %v", err)
	}
	return time.Unix(int64(seconds), 0)
}

// opened is a ledger that is measured up to ten, with a job.
func opened(t *testing.T) *store.Store {
	t.Helper()
	book, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), ten)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	nothing := func(*ledger.Holding) ledger.Load { return ledger.Load{} }
	if err := book.Measure(at(-5), at(0), nothing); err != nil {
		t.Fatal(err)
	}
	err = book.Update(func(tx *store.Tx) error {
		return tx.PutJob(&ledger.Job{UID: "J", Object: "jobs", Namespace: "team", Name: "sft", Created: at(0), Finished: at(59.5)})
	})
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// seen writes down what is known at a minute: the pod began after ten, and it is told at eleven that it has ended.
func seen(t *testing.T, book *store.Store, minute int) {
	t.Helper()
	err := book.Update(func(tx *store.Tx) error {
		h, _, err := tx.Holding("P")
		if err != nil {
			return err
		}
		switch minute {
		case 1:
			h = &ledger.Holding{UID: "P", Namespace: "team", Pod: "sft-0", Job: "sft", JobUID: "J", Node: "n", Milli: 2000, From: at(0.5),
				GPUs: []ledger.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b", Index: 1}}}
			err = tx.Put(h)
		case 60:
			h.To = at(59.5)
			err = tx.Put(h)
		}
		return errors.Join(err, tx.SetMark("pods", store.Mark{Time: at(float64(minute))}))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestASlowPrometheusKeepsNothingBack: it is asked again later, and what it would say is unknown until then.
func TestASlowPrometheusKeepsNothingBack(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.FormValue("query") // who has not read all of a question does not see that nobody waits for the answer
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	book := opened(t)
	seen(t, book, 1)
	seen(t, book, 30)
	m := &Measurer{Book: book, Prometheus: client, Pods: "pods", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at(30) }}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if wait, err := m.measureNext(ctx); err != nil || wait != every {
		t.Errorf("it is asked again after %v, error %v; want %v", wait, err, every)
	}
	if measured, _, err := book.Measured("pods"); err != nil || !measured.Equal(at(0)) {
		t.Errorf("it is measured until %v, error %v", measured, err)
	}
}

// TestOfAGPUThatIsSharedNobodyKnows who made it busy.
func TestOfAGPUThatIsSharedNobodyKnows(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write(w, question{start: stamp(t, r.FormValue("start")), steps: 5}, good(question{}))
	}))
	defer server.Close()
	client, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	past, err := client.ReadMeans(t.Context(), at(5), step, 5)
	if err != nil {
		t.Fatal(err)
	}
	whole, part := ledger.GPU{UUID: "GPU-a"}, ledger.GPU{UUID: "GPU-c", Index: 2, MemoryMiB: 1024}
	for name, tc := range map[string]struct {
		gpus []ledger.GPU
		want time.Duration
	}{
		"a whole one":          {gpus: []ledger.GPU{whole}, want: 5 * time.Minute},
		"a part of one":        {gpus: []ledger.GPU{part}},
		"both":                 {gpus: []ledger.GPU{whole, part}, want: 150 * time.Second},
		"cards without a name": {},
	} {
		t.Run(name, func(t *testing.T) {
			got := measuredLoad(&ledger.Holding{Node: "n", From: at(0), GPUs: tc.gpus}, past, at(0), 5)
			if got.Measured != tc.want {
				t.Errorf("%v is known, want %v", got.Measured, tc.want)
			}
		})
	}
}

package gpumetrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// prometheus answers queries with what a test says, by metric.
func prometheus(t *testing.T, answers map[string]http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.FormValue("query")]
		if answer == nil {
			answer = vector()
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// vector is an answer of Prometheus with samples, each labels and a value.
func vector(samples ...[2]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		result := ""
		for i, sample := range samples {
			if i > 0 {
				result += ","
			}
			result += fmt.Sprintf(`{"metric":{%s},"value":[1767225600,%q]}`, sample[0], sample[1])
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}
}

func TestSamples(t *testing.T) {
	first, second := `"UUID":"GPU-a","gpu":"0","Hostname":"n1"`, `"UUID":"GPU-b","gpu":"1","Hostname":"n1"`
	fails := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of memory", http.StatusInternalServerError)
	}
	slow := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := map[string]struct {
		answers map[string]http.HandlerFunc
		want    Sample
		found   bool
		fails   bool
	}{
		"both metrics of a GPU": {
			answers: map[string]http.HandlerFunc{
				MetricUtilization: vector([2]string{first, "87"}, [2]string{second, "1"}), MetricMemoryUsed: vector([2]string{first, "40960"}),
			},
			want: Sample{UUID: "GPU-a", Node: "n1", Utilization: ptr.To(87.0), MemoryUsedMiB: ptr.To(40960.0)}, found: true,
		},
		"nothing was measured":         {},
		"a GPU that does nothing is 0": {answers: map[string]http.HandlerFunc{MetricUtilization: vector([2]string{first, "0"})}, want: Sample{UUID: "GPU-a", Node: "n1", Utilization: ptr.To(0.0)}, found: true},
		"what is no number is unknown": {answers: map[string]http.HandlerFunc{MetricUtilization: vector([2]string{first, "NaN"})}},
		"what cannot be is unknown":    {answers: map[string]http.HandlerFunc{MetricMemoryUsed: vector([2]string{first, "-1"}, [2]string{first, "+Inf"})}},
		"the exporter names no UUID":   {answers: map[string]http.HandlerFunc{MetricUtilization: vector([2]string{`"gpu":"0","instance":"n1:9400"`, "5"})}, want: Sample{Node: "n1", Utilization: ptr.To(5.0)}, found: true},
		"one metric fails, the other is there": {
			answers: map[string]http.HandlerFunc{MetricUtilization: vector([2]string{first, "87"}), MetricMemoryUsed: fails},
			want:    Sample{UUID: "GPU-a", Node: "n1", Utilization: ptr.To(87.0)}, found: true, fails: true,
		},
		"Prometheus is broken":       {answers: map[string]http.HandlerFunc{MetricUtilization: fails, MetricMemoryUsed: fails}, fails: true},
		"Prometheus does not answer": {answers: map[string]http.HandlerFunc{MetricUtilization: slow, MetricMemoryUsed: slow}, fails: true},
		"something else answers": {answers: map[string]http.HandlerFunc{MetricUtilization: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>log in</html>")
		}}, fails: true},
		"the answer is of another kind": {answers: map[string]http.HandlerFunc{MetricUtilization: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"1"]}}`)
		}}, fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples, err := prometheus(t, tc.answers).ReadSamples(t.Context(), time.Unix(1767225600, 0))
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %t", err, tc.fails)
			}
			got, found := samples.SampleFor("GPU-a", "n1", 0)
			if found && got.Utilization == nil && got.MemoryUsedMiB == nil {
				found, got = false, Sample{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || found != tc.found {
				t.Errorf("found %t (-want +got):\n%s", found, diff)
			}
		})
	}
}

func TestAnAddressThatIsNone(t *testing.T) {
	if _, err := NewClient("://", nil); err == nil {
		t.Error("it is accepted")
	}
}

// TestAnAnswerIsReadUpToALimit, and where it sends the client to is not gone to.
func TestAnAnswerIsReadUpToALimit(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went where it was sent") }))
	defer elsewhere.Close()
	tests := map[string]struct {
		answer http.HandlerFunc
		large  bool
	}{
		"an answer without end": {answer: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, large: true},
		"an answer that sends elsewhere": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := prometheus(t, map[string]http.HandlerFunc{MetricUtilization: tc.answer, MetricMemoryUsed: tc.answer})
			_, err := client.ReadSamples(t.Context(), time.Now())
			if err == nil || errors.Is(err, ErrTooLarge) != tc.large {
				t.Errorf("error %v", err)
			}
		})
	}
}

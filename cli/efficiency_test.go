package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/ledger"
)

// ledgerSaying is a ledger that answers by path, 404 to others.
func ledgerSaying(t *testing.T, answers map[string]any) ledgerOptions {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, ledger.APIRoot)]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = ledger.Failure{Error: "the ledger knows no such job"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var o ledgerOptions
	o.Address, o.Insecure = server.URL, true
	return o
}

func offlineFactory(streams IOStreams) *Factory {
	f := NewFactory(streams)
	f.config = func() (*rest.Config, error) { return &rest.Config{Host: "https://unused.example.com"}, nil }
	return f
}

// columnGaps are between the columns of a table.
var columnGaps = regexp.MustCompile(` {2,}`)

// TestUsageSaysHowBusy GPUs were where that is measured, and nothing of it elsewhere.
func TestUsageSaysHowBusy(t *testing.T) {
	busy := &ledger.Efficiency{Utilization: ptr.To(62.5), Measured: 90}
	sum := func(user string, hours float64, e *ledger.Efficiency) ledger.Sum {
		return ledger.Sum{Keys: map[ledger.Key]string{ledger.ByUser: user}, GPUHours: hours, Pods: 1, Efficiency: e}
	}
	tests := map[string]struct {
		items  []ledger.Sum
		format string
		want   string
	}{
		"measured": {
			items: []ledger.Sum{sum("ada", 9, busy), sum("bob", 1, &ledger.Efficiency{})},
			want:  "ada,9.00,1,0,62%,90%\nbob,1.00,1,0,no data,0%\nTOTAL,10.00,2,0,62%,81%\n",
		},
		"hardly, and almost all": {
			items: []ledger.Sum{sum("ada", 9, &ledger.Efficiency{Utilization: ptr.To(0.2), Measured: 99.9})},
			want:  "ada,9.00,1,0,<1%,>99%\n",
		},
		"not measured": {items: []ledger.Sum{sum("ada", 9, nil)}, want: "ada,9.00,1,0\n"},
		"for programs": {
			items: []ledger.Sum{sum("ada", 9, busy), sum("bob", 1, &ledger.Efficiency{}), sum("eve", 1, nil)}, format: outputCSV,
			want: "USER,GPU-HOURS,UNCERTAIN,PODS,RUNNING,UTIL,MEASURED\nada,9.00,0.00,1,0,62.5,90.0\nbob,1.00,0.00,1,0,,0.0\neve,1.00,0.00,1,0,,\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, out, _ := TestIOStreams("")
			o := &usageOptions{factory: offlineFactory(streams), output: newOutput(outputTable, outputCSV), by: "user", since: "30d", allNamespaces: true}
			if tc.format != "" {
				o.output.format = tc.format
			}
			o.ledger = ledgerSaying(t, map[string]any{"usage": ledger.Usage{Items: tc.items}})
			if err := runUsage(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if tc.format == "" {
				_, got, _ = strings.Cut(columnGaps.ReplaceAllString(got, ","), "\n")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFinishedJobThatIsStillThere says how busy its GPUs were, where a ledger knows that.
func TestAFinishedJobThatIsStillThere(t *testing.T) {
	finished := time.Now()
	detail := func(e *ledger.Efficiency) map[string]any {
		return map[string]any{"jobs/team/u": ledger.JobDetail{Job: ledger.Job{UID: "u", Efficiency: e}}}
	}
	tests := map[string]struct {
		finished *time.Time
		ledger   map[string]any
		down     bool
		want     string
		warns    bool
	}{
		"measured":                     {finished: &finished, ledger: detail(&ledger.Efficiency{Utilization: ptr.To(63.0), Measured: 97}), want: "63% on average, measured for 97% of the time"},
		"nothing was measured":         {finished: &finished, ledger: detail(&ledger.Efficiency{}), want: "no data: nothing was measured while it held them"},
		"nothing measures it":          {finished: &finished, ledger: detail(nil)},
		"the ledger is younger":        {finished: &finished},
		"the ledger does not answer":   {finished: &finished, down: true, warns: true},
		"it runs, so nothing is asked": {down: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, _, errOut := TestIOStreams("")
			o := &describeJobOptions{factory: offlineFactory(streams), ledger: ledgerSaying(t, tc.ledger)}
			if tc.down {
				o.ledger.Address = "https://127.0.0.1:1"
			}
			job := &inventory.JobDetail{Job: inventory.Job{Namespace: "team", Name: "sft", GPUs: 8, Finished: tc.finished, Object: inventory.ObjectRef{UID: "u"}}}
			if got := efficiencyText(o.jobEfficiency(t.Context(), job)).String(); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
			if warned := strings.Contains(errOut.String(), "the ledger is left out"); warned != tc.warns {
				t.Errorf("standard error says %q, want a warning: %t", errOut.String(), tc.warns)
			}
		})
	}
}

// TestADeletedJobSaysHowBusy its GPUs were, and those of each pod.
func TestADeletedJobSaysHowBusy(t *testing.T) {
	busy := &ledger.Efficiency{Utilization: ptr.To(63.0), Measured: 97}
	job := ledger.JobDetail{Job: ledger.Job{Name: "sft", Efficiency: busy}, Holdings: []ledger.Holding{{Pod: "sft-0", Milli: 1000, Efficiency: busy}}}
	describe := func(job ledger.JobDetail) string {
		t.Helper()
		streams, out, _ := TestIOStreams("")
		if err := describeFinishedJob(newDescription(streams), job, time.Now()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := describe(job); !strings.Contains(got, "63% on average, measured for 97% of the time") || !strings.Contains(got, "MEASURED") {
		t.Errorf("described as\n%s", got)
	}
	job.Efficiency, job.Holdings[0].Efficiency = nil, nil
	if got := describe(job); strings.Contains(got, "Utilization") || strings.Contains(got, "MEASURED") {
		t.Errorf("what is not measured is told of:\n%s", got)
	}
}

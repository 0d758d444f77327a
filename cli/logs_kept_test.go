package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// ledgerWith is a ledger that has kept some output.
func ledgerWith(t *testing.T, items ...ledger.Output) *logsOptions {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(ledger.OutputList{Items: items})
	}))
	t.Cleanup(server.Close)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	streams, _, _ := TestIOStreams("")
	o := &logsOptions{factory: NewFactory(streams)}
	o.factory.config = func() (*rest.Config, error) { return &rest.Config{Host: "https://unused.example.com"}, nil }
	o.stream.Namespace, o.stream.Job = "team", "train"
	o.ledger.Address, o.ledger.Insecure = server.URL, true
	return o
}

// TestKeptOutputThatBrokeOff is called so: on standard error, and in JSON.
func TestKeptOutputThatBrokeOff(t *testing.T) {
	whole := ledger.Output{JobUID: "u", Pod: "a", Container: "main", Text: "2026-11-01T12:00:00Z hello\n"}
	broken := ledger.Output{JobUID: "u", Pod: "b", Container: "main", Text: "2026-11-01T12:00:01Z there\n", Incomplete: true}
	earlier := ledger.Output{JobUID: "before", Pod: "c", Container: "main", Text: "2026-11-01T12:00:01Z other\n", Incomplete: true}
	for name, tc := range map[string]struct {
		kept []ledger.Output
		warn string
		json string
	}{
		"whole":               {kept: []ledger.Output{whole}, json: `"kept": {"truncated":false,"incomplete":[]}}`},
		"broken":              {kept: []ledger.Output{whole, broken}, warn: "there may have been more, of\n  b/main\n", json: `"incomplete":["b/main"]}}`},
		"that of another job": {kept: []ledger.Output{whole, earlier}, json: `"incomplete":[]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := ledgerWith(t, tc.kept...)
			streams, out, errOut := TestIOStreams("")
			o.factory.IO = streams
			if shown, err := o.printKept(t.Context()); err != nil || !shown {
				t.Fatalf("shown %t, %v", shown, err)
			}
			if got := errOut.String(); strings.Contains(got, "broke off") != (tc.warn != "") || !strings.Contains(got, tc.warn) {
				t.Errorf("said %q, want %q", got, tc.warn)
			}
			out.Reset()
			o.output = newOutput(outputJSON, outputJSON)
			if _, err := o.printKept(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !json.Valid(out.Bytes()) || !strings.Contains(got, tc.json) {
				t.Errorf("printed %s, want JSON with %s", got, tc.json)
			}
		})
	}
}

// TestWhatTheLedgerIsAskedFor: not for a task that has not begun while the others run.
func TestWhatTheLedgerIsAskedFor(t *testing.T) {
	now, task := time.Now(), 50
	array := inventory.Job{Name: "sweep", Status: inventory.StatusRunning, Array: &inventory.Array{Tasks: 100}}
	ended, leaving := array, array
	ended.Finished, leaving.Status = &now, inventory.StatusTerminating
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a job that is gone":                {&inventory.NotFoundError{Name: "sweep"}, true},
		"a job whose pods are gone":         {&joblogs.NoOutputError{Job: array}, true},
		"a task that has not begun":         {&joblogs.NoOutputError{Job: array, Rank: &task}, false},
		"a task of an array that has ended": {&joblogs.NoOutputError{Job: ended, Rank: &task}, true},
		"a task of one that is deleted":     {&joblogs.NoOutputError{Job: leaving, Rank: &task}, true},
		"a task that there is not":          {&joblogs.SelectionError{Text: phrase.Quote("no task")}, false},
	} {
		if got := (&logsOptions{}).isOutputGone(tc.err); got != tc.want {
			t.Errorf("%s: asked %t, want %t", name, got, tc.want)
		}
	}
}

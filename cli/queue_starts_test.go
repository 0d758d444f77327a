package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/survival"
)

func TestStarts(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time {
		moment := now.Add(time.Duration(minutes) * time.Minute)
		return &moment
	}
	between := func(from, to int, eta *time.Time) queue.Entry {
		return queue.Entry{Earliest: at(from), Latest: at(to), Confidence: 0.9, ETA: eta}
	}
	tests := map[string]struct {
		entry queue.Entry
		want  string
	}{
		"never":                     {queue.Entry{Never: true, ETA: at(3)}, "never"},
		"blocked":                   {queue.Entry{Cause: "Tainted"}, "blocked"},
		"when a quota has room":     {queue.Entry{Cause: "GPUQuotaReached", ETA: at(30)}, "in 30m"},
		"blocked for a while":       {queue.Entry{Cause: "GPUQuotaReached", Earliest: at(20), Latest: at(180), Confidence: 0.9}, "in 20m to 3h (90%)"},
		"unknown":                   {queue.Entry{}, "unknown"},
		"by the limits of others":   {queue.Entry{ETA: at(30)}, "in 30m"},
		"now":                       {queue.Entry{ETA: at(0)}, "now"},
		"by what others have run":   {between(20, 180, nil), "in 20m to 3h (90%)"},
		"by both":                   {between(20, 180, at(180)), "in 20m to 3h (90%)"},
		"it may start at any time":  {between(0, 180, nil), "within 3h (90%)"},
		"it is known to the minute": {between(20, 20, at(20)), "in 20m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := startEstimate(now, tc.entry).String(); got != tc.want {
				t.Errorf("it starts %q, want %q", got, tc.want)
			}
		})
	}
}

// TestThePast: whoever asks is told as much as the ledger tells, and of what is in the way that they can do something about.
func TestThePast(t *testing.T) {
	runs := ledger.RunList{}
	for range 30 {
		runs.Items = append(runs.Items, ledger.Run{Namespace: "team", GPUs: 1, Seconds: 60})
	}
	answer := func(status int, body any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != ledger.APIRoot+"runs" {
				t.Errorf("it asks %s", r.URL.Path)
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		}
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		knows   bool
		says    string
	}{
		"it tells":             {answer(http.StatusOK, runs), true, ""},
		"it knows of none":     {answer(http.StatusOK, ledger.RunList{}), false, ""},
		"it does not tell you": {answer(http.StatusForbidden, ledger.Failure{Error: "you may not"}), false, ""},
		"it is older":          {answer(http.StatusNotFound, "404"), false, "told by time limits alone"},
		"it fails":             {answer(http.StatusInternalServerError, ledger.Failure{Error: "its log says why"}), false, "its log says why"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(tc.handler)
			t.Cleanup(server.Close)
			o := &ledgerOptions{}
			o.Address, o.Insecure = server.URL, true
			past, says := o.runHistory(t.Context(), offline(t))
			knows := past.RemainingTime(survival.Job{Namespace: "team", GPUs: 1}, 0, 0).IsKnown()
			if knows != tc.knows || (len(says) > 0) != (tc.says != "") || !strings.Contains(says.String(), tc.says) {
				t.Errorf("it knows %t, want %t; it says %q, want %q", knows, tc.knows, says, tc.says)
			}
		})
	}
	none := &ledgerOptions{}
	none.Address = noLedger
	if past, says := none.runHistory(t.Context(), offline(t)); past != nil || len(says) > 0 {
		t.Errorf("of no ledger it knows %v and says %q", past, says)
	}
}

// offline is a factory for what asks no API server.
func offline(t *testing.T) *Factory {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	streams, _, _ := TestIOStreams("")
	f := NewFactory(streams)
	f.config = func() (*rest.Config, error) { return &rest.Config{Host: "https://unused.example.com"}, nil }
	return f
}

// TestWhyTellsWhenAJobStarts: with times of the day, and with days where there are several; and whether it is a quota that keeps it waiting.
func TestWhyTellsWhenAJobStarts(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	soon, later, days := now.Add(130*time.Minute), now.Add(270*time.Minute), now.Add(70*time.Hour)
	for want, entry := range map[string]queue.Entry{
		"number 2 in pool train, behind 8 GPUs; starts between 14:10 and 16:30 (90%)": {Earliest: &soon, Latest: &later},
		"starts between 2026-11-01 14:10 and 2026-11-04 10:00 (90%)":                  {Earliest: &soon, Latest: &days},
		"number 2 in pool train; others leave enough of its quota, and it starts, between 14:10 and 16:30 (90%), by how long jobs like them have run": {
			Cause: reason.GPUQuotaReached, Earliest: &soon, Latest: &later, ETA: &later},
		"number 2 in pool train; others leave enough of its quota, and it starts, by 16:30, if all before it use all of their time limits": {
			Cause: reason.GPUQuotaReached, ETA: &later},
	} {
		streams, out, _ := TestIOStreams("")
		entry.Position, entry.Pool, entry.GPUsAhead, entry.Confidence = 2, "train", 8, 0.9
		describeQueueEntry(newDescription(streams), entry, now)
		if said := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
}

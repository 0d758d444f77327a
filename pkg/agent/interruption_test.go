package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestTheWordOfAMachinesCloud is written on the node once, and nothing is that is no such word.
func TestTheWordOfAMachinesCloud(t *testing.T) {
	now := time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC)
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "2026-11-24 12:02:00", code) }
	}
	elsewhere := httptest.NewServer(says("2026-11-24 12:02:00"))
	defer elsewhere.Close()
	tests := map[string]struct {
		answer http.HandlerFunc
		want   string // what is written, "" for nothing
		fails  string
	}{
		"in two minutes, as Tencent Cloud writes it": {answer: says("2026-11-24 12:02:00\n"), want: "2026-11-24T04:02:00Z"},
		"with its zone":          {answer: says("2026-11-24T05:02:00+01:00"), want: "2026-11-24T04:02:00Z"},
		"it has passed just now": {answer: says("2026-11-24 11:59:58"), want: "2026-11-24T03:59:58Z"},
		"it is not taken back":   {answer: status(http.StatusNotFound)},
		"it says nothing":        {answer: says("")},
		"it has passed long ago": {answer: says("2026-11-24 11:58:59"), fails: "not believed"},
		"in another year":        {answer: says("2000-01-01 00:00:00"), fails: "not believed"},
		"tomorrow":               {answer: says("2026-11-25 12:02:00"), fails: "not believed"},
		"a page to log in":       {answer: says("<html>log in</html>"), fails: "no time"},
		"an answer without end": {answer: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, fails: "more than a time"},
		"it is broken": {answer: status(http.StatusInternalServerError), fails: "500"},
		"it sends elsewhere": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, fails: "302"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.answer)
			defer server.Close()
			var written []string
			h := &interruptionWatcher{url: server.URL, log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }, http: metadataClient(),
				write: func(_ context.Context, _ types.PatchType, patch []byte) error {
					written = append(written, string(patch))
					return nil
				}}
			for range 3 {
				err := h.pollOnce(t.Context())
				if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v, want %q", err, tc.fails)
				}
			}
			if tc.want == "" && len(written) > 0 {
				t.Errorf("written %q", written)
			}
			if want := `{"metadata":{"annotations":{"g8s.host/interruption":"` + tc.want + `"}}}`; tc.want != "" && (len(written) != 1 || written[0] != want) {
				t.Errorf("written %q, want %s once", written, want)
			}
		})
	}
}

// TestAWordThatCannotBeWritten is written when it can be, and one that changes is written again.
func TestAWordThatCannotBeWritten(t *testing.T) {
	now := time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC)
	var said atomic.Value
	said.Store("2026-11-24 12:02:00")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, _ := said.Load().(string)
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	var written []string
	refused := errors.New("the API server is away")
	h := &interruptionWatcher{url: server.URL, log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }, http: metadataClient(),
		write: func(_ context.Context, _ types.PatchType, patch []byte) error {
			written = append(written, string(patch))
			return refused
		}}
	if err := h.pollOnce(t.Context()); err != nil || len(written) != 0 {
		t.Errorf("error %v, written %q before it was said twice", err, written)
	}
	if err := h.pollOnce(t.Context()); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	refused = nil
	if err := h.pollOnce(t.Context()); err != nil || len(written) != 2 {
		t.Errorf("error %v, written %q", err, written)
	}
	said.Store("2026-11-24 12:01:00")
	if err := h.pollOnce(t.Context()); err != nil || len(written) != 2 {
		t.Errorf("error %v, written %q before it was said twice", err, written)
	}
	if err := h.pollOnce(t.Context()); err != nil || len(written) != 3 || !strings.Contains(written[2], "2026-11-24T04:01:00Z") {
		t.Errorf("error %v, written %q", err, written)
	}
}

// TestAWordThatStands is written again each minute, and is taken from the node when the cloud has not said it for a while. Only
// what this program wrote is.
func TestAWordThatStands(t *testing.T) {
	now := time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC)
	const word, silence, broken = "2026-11-24 12:02:00", "", "500"
	var said string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch said {
		case silence:
			http.Error(w, "", http.StatusNotFound)
		case broken:
			http.Error(w, "", http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte(said))
		}
	}))
	defer server.Close()
	var kinds []types.PatchType
	var last string
	var refused error
	h := &interruptionWatcher{url: server.URL, log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }, http: metadataClient(),
		write: func(_ context.Context, kind types.PatchType, patch []byte) error {
			kinds, last = append(kinds, kind), string(patch)
			return refused
		}}
	const merge, remove = types.MergePatchType, types.JSONPatchType
	steps := []struct {
		what, said string
		times      int
		later      time.Duration
		refused    error
		want       []types.PatchType
	}{
		{what: "nothing was written", said: silence, times: 2 * silentPollsToRemove},
		{what: "once", said: word, times: 1},
		{what: "an error between", said: broken, times: 1},
		{what: "not in a row", said: word, times: 1},
		{what: "in a row", said: word, times: 3, want: []types.PatchType{merge}},
		{what: "a minute later", said: word, times: 2, later: rewriteInterval, want: []types.PatchType{merge}},
		{what: "almost silent", said: silence, times: silentPollsToRemove - 1},
		{what: "not known", said: broken, times: 1},
		{what: "almost silent again", said: silence, times: silentPollsToRemove - 1},
		{what: "the API server is away", said: silence, times: 1, refused: errors.New("away"), want: []types.PatchType{remove}},
		{what: "silent", said: silence, times: 2, want: []types.PatchType{remove}},
		{what: "said again", said: word, times: 2, want: []types.PatchType{merge}},
		{what: "another's word stands there now", said: silence, times: 2 * silentPollsToRemove, want: []types.PatchType{remove},
			refused: apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, "n", "the test failed", 0, false)},
	}
	for _, step := range steps {
		said, refused, kinds, now = step.said, step.refused, nil, now.Add(step.later)
		for range step.times {
			_ = h.pollOnce(t.Context()) // what is written counts
		}
		if !slices.Equal(kinds, step.want) {
			t.Errorf("%s: written %v, want %v", step.what, kinds, step.want)
		}
	}
	if want := `[{"op":"test","path":"/metadata/annotations/g8s.host~1interruption","value":"2026-11-24T04:02:00Z"},` +
		`{"op":"remove","path":"/metadata/annotations/g8s.host~1interruption"}]`; last != want {
		t.Errorf("written %s, want %s", last, want)
	}
}

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/situations"
)

func TestPreferredLanguage(t *testing.T) {
	for header, want := range map[string]phrase.Language{
		"": phrase.English, "zh": phrase.Chinese, "zh-CN,zh;q=0.9,en;q=0.8": phrase.Chinese, "en-US,en;q=0.9,zh;q=0.8": phrase.English,
		"fr, zh;q=0.5": phrase.Chinese, "fr": phrase.English, "zh;q=0.1, en;q=0.9": phrase.English, ";;;": phrase.English,
		strings.Repeat("zh,", 1000): phrase.English,
	} {
		if got := preferredLanguage(header); got != want {
			t.Errorf("%.40q is answered in %s, want %s", header, got, want)
		}
	}
}

// TestFailuresAreInTheCallersLanguage: programs read the code, which stays.
func TestFailuresAreInTheCallersLanguage(t *testing.T) {
	handler := withLanguage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeFailure(w, r, &inventory.NotFoundError{Namespace: "team", Name: "train"})
	}))
	for header, want := range map[string]string{"": `job \"train\" not found in namespace team`, "zh-CN": "命名空间 team"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		request.Header.Set("Accept-Language", header)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if body := answer.Body.String(); !strings.Contains(body, want) || !strings.Contains(body, `"code":"NotFound"`) {
			t.Errorf("%q is answered %s, want %s", header, body, want)
		}
		if answer.Header().Get("Vary") != "Accept-Language" {
			t.Errorf("caches are not told: %v", answer.Header())
		}
	}
}

// TestOneCodeInREST has a job's item say the code of lists in both languages.
func TestOneCodeInREST(t *testing.T) {
	all := situations.AllSituations()
	for i := range all {
		job := all[i].World().Job()
		for _, spoken := range []phrase.Language{phrase.English, phrase.Chinese} {
			item := jobItem(context.WithValue(t.Context(), languageKey{}, spoken), &job, situations.Noon)
			if item.Reason != job.Reason || item.Message == "" != (job.Message == "") {
				t.Errorf("%s: it says %s: %q, and lists %s: %q", all[i].Name, item.Reason, item.Message, job.Reason, job.Message)
			}
		}
	}
}

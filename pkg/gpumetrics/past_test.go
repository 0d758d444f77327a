package gpumetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestCardsWithoutAPlaceAreToldApart by their UUIDs: that they seem to be in one place makes none of them unknown.
func TestCardsWithoutAPlaceAreToldApart(t *testing.T) {
	end := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := map[bool]string{true: "10", false: "3"}[strings.HasPrefix(r.FormValue("query"), "count_over_time(")]
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[
			{"metric":{"UUID":"a"},"values":[[%[1]d,%[2]q]]},{"metric":{"UUID":"b"},"values":[[%[1]d,%[2]q]]}]}}`, end.Unix(), value)
	}))
	defer server.Close()
	client, err := NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	past, err := client.ReadPast(t.Context(), end, 5*time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, uuid := range []string{"a", "b"} {
		if got := past.Of(uuid, "", -1); len(got) != 1 || got[0] != 3 {
			t.Errorf("of %s is known %v, want 3", uuid, got)
		}
	}
}

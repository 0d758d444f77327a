package recorder

import (
	"encoding/json"
	"testing"
	"time"
)

// TestATimeThatAUserMadeUp is bounded: one in the year -1 could not be written down, and ended the ledger each time again.
func TestATimeThatAUserMadeUp(t *testing.T) {
	created := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	seen := created.Add(time.Hour)
	forged, err := time.Parse(time.RFC3339, "0000-01-01T00:00:00+23:59")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]time.Time{
		forged.UTC():               created,
		created.Add(time.Minute):   created.Add(time.Minute),
		seen.Add(1000 * time.Hour): seen,
		{}:                         {},
	} {
		got := boundFinished(at, created, seen)
		if _, err := json.Marshal(got); err != nil || !got.Equal(want) {
			t.Errorf("%s becomes %s, want %s: %v", at, got, want, err)
		}
	}
}

package workload

import (
	"testing"
	"time"
)

// TestDurationsAreReadAsTheyAreWritten: what one function writes the other takes for the same.
func TestDurationsAreReadAsTheyAreWritten(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 36 * time.Hour: "1d12h", 7 * 24 * time.Hour: "7d", time.Hour + time.Second: "1h1s",
		maxDuration: "3650d",
	} {
		text := DurationText(d)
		if text != want {
			t.Errorf("%s is %s, want %s", d, text, want)
		}
		if again, err := durationParser(0)(text); err != nil || again != d {
			t.Errorf("%s is read as %s, %v", text, again, err)
		}
	}
}

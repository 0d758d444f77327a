package server

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/joblogs"
)

func logLine(pod string, nanos int64, text string) joblogs.Line {
	line := joblogs.Line{Source: joblogs.Source{Pod: pod, Container: "main"}, Text: text}
	if nanos > 0 {
		line.Time = time.Unix(0, nanos)
	}
	return line
}

// TestEveryLineComesOnce breaks a stream after each of its lines and goes on with what the sources then give again.
func TestEveryLineComesOnce(t *testing.T) {
	// Two pods, of which the second lags behind; two lines of one time; and a line that the node had to cut.
	lines := []joblogs.Line{
		logLine("a", 10, "a1"), logLine("a", 0, "a1, cut"), logLine("a", 20, "a2"), logLine("a", 20, "a3"), logLine("b", 5, "b1"),
		logLine("a", 30, "a4"), logLine("a", 0, "a4, cut"), logLine("b", 25, "b2"), logLine("b", 25, "b3"),
	}
	var want []string
	for _, line := range lines {
		want = append(want, line.Text)
	}
	for cut := range lines {
		var got []string
		first := newLogCursor("")
		for _, line := range lines[:cut] {
			if first.acceptLine(line) {
				got = append(got, line.Text)
			}
		}
		again := newLogCursor(first.encodeID())
		for _, line := range lines {
			if again.acceptLine(line) {
				got = append(got, line.Text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("broken after %d lines (-want +got):\n%s", cut, diff)
		}
	}
}

func TestAnIdentityThatIsNotOursBeginsAtTheBeginning(t *testing.T) {
	for _, id := range []string{"", "x", "!!!!", "AAAA"} {
		if c := newLogCursor(id); !c.resumeTime().IsZero() || !c.acceptLine(logLine("a", 1, "")) {
			t.Errorf("%q is read as a position", id)
		}
	}
}

func TestReadingBeginsBeforeTheSourceThatLags(t *testing.T) {
	c := newLogCursor("")
	c.acceptLine(logLine("a", int64(10*time.Minute), ""))
	c.acceptLine(logLine("b", int64(5*time.Minute), ""))
	want := time.Unix(0, int64(5*time.Minute)).Add(-resumeSlack)
	if got := newLogCursor(c.encodeID()).resumeTime(); !got.Equal(want) {
		t.Errorf("reading begins at %s, want %s", got, want)
	}
}

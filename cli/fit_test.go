package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestFitted(t *testing.T) {
	long := strings.Repeat("word ", 19) + "word"
	tests := map[string]struct{ text, want string }{
		"short lines stay as they are":    {"one\ntwo\n\nthree", "one\ntwo\n\nthree"},
		"a long line goes on in the next": {long + " and more\nto read.\nEnd", long + "\nand more to read.\nEnd"},
		"what is indented stays":          {"list:\n  " + long + " and more\n  b", "list:\n  " + long + " and more\n  b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wrapParagraphs(tc.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEventsFitATerminal: long names leave the message no room in its row.
func TestEventsFitATerminal(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	events := []jobEvent{{Job: "qwen2-sft-with-a-long-name", Event: inventory.Event{
		Type: "Warning", Reason: "FailedScheduling", Object: "Pod/qwen2-sft-with-a-long-name-0-x7k2p", Count: 12, Last: now.Add(-time.Minute),
		Message: "0/20 nodes are available because of many things that have to be told to whom it concerns: 8 nodes have no free GPU, 12 are of another pool",
	}}}
	var out strings.Builder
	if err := writeTable(&out, events, jobEventColumns(now, false), tableStyle{width: 100}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 100 {
			t.Errorf("a line is wider than the terminal: %s", line)
		}
	}
	if words := strings.Join(strings.Fields(out.String()), " "); !strings.HasSuffix(words, "12 are of another pool") || strings.Contains(words, "…") {
		t.Errorf("the message is cut:\n%s", out.String())
	}
}

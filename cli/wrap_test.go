package cli

import (
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
)

func TestLinesAreWrappedBetweenWords(t *testing.T) {
	tests := map[string]struct {
		line  string
		width int
		want  string
	}{
		"a pipe has no width":           {"  - one two three", 0, "  - one two three"},
		"a line that fits":              {"  - one two three", 17, "  - one two three"},
		"a line that does not":          {"  - one two three", 16, "  - one two\n    three"},
		"a long word stays whole":       {"  - one aaaaaaaaaaaaaaaaaaa b", 12, "  - one\n    aaaaaaaaaaaaaaaaaaa\n    b"},
		"a colour takes no column":      {"\x1b[31mone\x1b[0m two six", 11, "\x1b[31mone\x1b[0m two six"},
		"a letter is a column, not two": {"  - größer öde", 14, "  - größer öde"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := wrapLine(tc.line, tc.width, 4); got != tc.want {
				t.Errorf("wrapped is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhyFitsATerminal(t *testing.T) {
	streams, out, _ := TestIOStreams("")
	streams.Width = 60
	long := strings.Repeat("word ", 30)
	report := diagnosis.Report{Job: "big", Status: "Pending", Verdict: long, Findings: []diagnosis.Finding{
		{Cause: reason.Busy, Text: long, Advice: []string{long}}, {Cause: reason.Cordoned, Text: long, Advice: []string{long}},
	}}
	if err := explainReport(newDescription(streams), report, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if len(line) > 60 {
			t.Errorf("a line has %d columns: %q", len(line), line)
		}
	}
}

package cli

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/cli/monospace"
)

func TestChineseIsWrappedBetweenCharacters(t *testing.T) {
	tests := map[string]struct {
		line  string
		width int
		want  string
	}{
		"between two":                           {"  - 等待节点空闲", 12, "  - 等待节点\n    空闲"},
		"a full stop does not begin a line":     {"  - 等待节点，然后", 12, "  - 等待节\n    点，然后"},
		"a bracket does not end one":            {"  - 等待节（空闲）", 12, "  - 等待节\n    （空闲）"},
		"a name in it stays whole":              {"  - 等待node-1空闲", 12, "  - 等待\n    node-1空\n    闲"},
		"a blank is a place to break, and gone": {"  - 等待 node-1", 12, "  - 等待\n    node-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := wrapLine(tc.line, tc.width, 4)
			if got != tc.want {
				t.Errorf("wrapped is %q, want %q", got, tc.want)
			}
			for line := range strings.Lines(got) {
				if monospace.Columns(strings.TrimRight(line, "\n")) > tc.width {
					t.Errorf("the line %q is wider than %d", line, tc.width)
				}
			}
		})
	}
}

func TestATableOfChineseIsAligned(t *testing.T) {
	columns := []column[string]{
		{header: "NAME", value: func(s string) string { return s }},
		{header: "WORDS", value: func(s string) string { return s + " 节点空闲" }},
	}
	var out strings.Builder
	if err := writeTable(&out, []string{"任务", "job"}, columns, tableStyle{width: 20}); err != nil {
		t.Fatal(err)
	}
	want := "NAME  WORDS\n任务  任务 节点空闲\njob   job 节点空闲\n"
	if out.String() != want {
		t.Errorf("the table is\n%swant\n%s", out.String(), want)
	}
}

package ledger

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	tests := map[string]struct {
		writes []string
		want   string
		cut    bool
	}{
		"nothing":                        {},
		"less than it may be":            {writes: []string{"a\n", "b"}, want: "a\nb"},
		"as much as it may be":           {writes: []string{"0123456789"}, want: "0123456789"},
		"more: the lines that are whole": {writes: []string{"first\n", "second\n", "3\n"}, want: "second\n3\n", cut: true},
		"one line without end":           {writes: []string{strings.Repeat("x", 25)}, want: strings.Repeat("x", 10), cut: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tail := &Tail{Max: 10}
			for _, w := range tc.writes {
				if _, err := io.WriteString(tail, w); err != nil {
					t.Fatal(err)
				}
			}
			if got, cut := tail.Bytes(); string(got) != tc.want || cut != tc.cut {
				t.Errorf("kept %q, cut %t; want %q, %t", got, cut, tc.want, tc.cut)
			}
		})
	}
	long := &Tail{Max: 1000}
	for i := range 100000 {
		fmt.Fprintf(long, "line %d\n", i)
	}
	if got, _ := long.Bytes(); len(got) > 1000 || !strings.HasSuffix(string(got), "line 99999\n") {
		t.Errorf("kept %d bytes, %q at the end", len(got), got[max(0, len(got)-20):])
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Test":"TestA/one"}
{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"    compat_test.go:185: the server is too old\n"}
{"Action":"skip","Test":"TestB"}
{"Action":"output","Test":"TestC/two","Output":"    compat_test.go:7: it is late\n"}
{"Action":"fail","Test":"TestC/two"}
{"Action":"fail","Test":"TestC"}
{"Action":"fail"}
`

func TestReadOutcome(t *testing.T) {
	var failures strings.Builder
	got, err := readOutcome(strings.NewReader(events), &failures)
	want := outcome{passed: 1, failed: []string{"TestC"}, skipped: []string{"the server is too old"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); err != nil || diff != "" {
		t.Errorf("error %v, outcome (-want +got):\n%s", err, diff)
	}
	if !strings.Contains(failures.String(), "it is late") {
		t.Errorf("of the failures it writes %q, want what the test said", failures.String())
	}
	if _, err := readOutcome(strings.NewReader("FAIL\n"), &failures); err == nil {
		t.Error("a line that is no event is no error")
	}
}

func TestReplaceRow(t *testing.T) {
	page := "text\n" + begin + "\n| a | b | c |\n|---|---|---|\n| 1.34.3 | x | y |\n| 1.36.3 | x | y |\n" + end + "\nmore\n"
	row := outcome{version: "1.34.4", passed: 12, skipped: []string{"too old"}}.row(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	got, err := replaceRow(page, row)
	if err != nil {
		t.Fatal(err)
	}
	got, err = replaceRow(got, "| 1.35.1 | x | y |")
	want := "text\n" + begin + "\n| a | b | c |\n|---|---|---|\n| 1.34.4 | 2026-03-01 | 12 tests passed, 1 skipped: too old |\n" +
		"| 1.35.1 | x | y |\n| 1.36.3 | x | y |\n" + end + "\nmore\n"
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, page (-want +got):\n%s", err, diff)
	}
	if _, err := replaceRow("a page without marks", row); err == nil {
		t.Error("a page without marks is no error")
	}
}

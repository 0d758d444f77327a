package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The lines of the page between which the rows are.
const begin, end = "<!-- versions: written by make compat -->", "<!-- end of versions -->"

// outcome is what became of the tests against a version.
type outcome struct {
	version string // such as 1.34.4
	passed  int
	failed  []string
	// skipped are the reasons for which tests were skipped.
	skipped []string
}

// readOutcome reads what `go test -json` writes, and writes what the tests that failed said. Subtests count as a part of theirs.
func readOutcome(events io.Reader, failures io.Writer) (outcome, error) {
	var found outcome
	said := map[string][]string{}
	for decoder := json.NewDecoder(events); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return found, fmt.Errorf("reading what became of the tests: %w", err)
		}
		top, _, isSubtest := strings.Cut(event.Test, "/")
		switch {
		case event.Action == "output" || event.Action == "build-output":
			said[top] = append(said[top], event.Output)
		case isSubtest || top == "" && event.Action != "fail":
		case event.Action == "pass":
			found.passed++
		case event.Action == "fail":
			fmt.Fprint(failures, strings.Join(said[top], ""))
			if top != "" {
				found.failed = append(found.failed, top)
			}
		case event.Action == "skip":
			found.skipped = append(found.skipped, skipReason(said[top]))
		}
	}
}

// skipReason is what a test said when it was skipped, without the place in its source.
func skipReason(said []string) string {
	for _, line := range said {
		if _, reason, ok := strings.Cut(strings.TrimSpace(line), ".go:"); ok {
			_, reason, _ = strings.Cut(reason, ": ")
			return reason
		}
	}
	return "no reason given"
}

// row is the row of the page.
func (o outcome) row(at time.Time) string {
	text := fmt.Sprintf("%d tests passed", o.passed)
	if len(o.failed) > 0 {
		text = fmt.Sprintf("%s, %d failed: `%s`", text, len(o.failed), strings.Join(o.failed, "`, `"))
	}
	if len(o.skipped) > 0 {
		text = fmt.Sprintf("%s, %d skipped: %s", text, len(o.skipped), strings.Join(o.skipped, "; "))
	}
	return fmt.Sprintf("| %s | %s | %s |", o.version, at.UTC().Format(time.DateOnly), text)
}

// replaceRow returns the page with a row in the table between its marks, sorted, in place of that of the same minor version.
func replaceRow(page, row string) (string, error) {
	before, rest, ok := strings.Cut(page, begin+"\n")
	table, after, hasEnd := strings.Cut(rest, end)
	if !ok || !hasEnd {
		return "", fmt.Errorf("it has no %s or no %s", begin, end)
	}
	lines := strings.Split(strings.Trim(table, "\n"), "\n")
	head, rows := lines[:min(2, len(lines))], lines[min(2, len(lines)):]
	rows = append(slices.DeleteFunc(rows, func(old string) bool { return minor(old) == minor(row) }), row)
	slices.SortFunc(rows, strings.Compare)
	return before + begin + "\n" + strings.Join(append(head, rows...), "\n") + "\n" + end + after, nil
}

// minor is the version of a row without its last number.
func minor(row string) string {
	version := strings.TrimSpace(strings.SplitN(row, "|", 3)[1])
	return version[:strings.LastIndex(version, ".")+1]
}

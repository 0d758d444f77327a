package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/test/conformance/ours"
)

// Test is one of a suite, or one of its subtests. A suite as a whole has no name.
type Test struct{ Suite, Name string }

func (t Test) String() string { return strings.TrimSuffix(t.Suite+"/"+t.Name, "/") }

// Outcome is what became of a test.
type Outcome struct {
	// Action is pass, fail, skip or refuse.
	Action string
	// Said is the last line that a test which was skipped wrote.
	Said string
}

const pass, fail, skip = "pass", "fail", "skip"

// refuse is the action of a test that asks for a scheduler which ours refuses to be, and of one all of whose failed subtests do.
const refuse = "refuse"

// Results are what became of tests.
type Results map[Test]Outcome

// event is a line of what go tool test2json writes.
type event struct{ Action, Package, Test, Output string }

// errCutShort says that a program ended in the middle of a test: it panicked, or its API server did not start. Nothing is known of the tests after that.
var errCutShort = errors.New("its program ended in the middle")

// errHung is errCutShort of a program that ran for longer than it may, as it would again.
var errHung = fmt.Errorf("%w, after %s", errCutShort, limit)

// hung is how the output of package testing begins for a program that hung.
const hung = "panic: test timed out after "

// Read adds what became of the tests of a run of a suite. What replaces an earlier outcome is a test that was run again. The error is errCutShort
// where the program did not come to its last line, and errHung where it ran for too long.
func (r Results) Read(suite string, from io.Reader) error {
	said, refused := map[string]string{}, map[string]bool{}
	begun, ended, cut := "", false, errCutShort
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			r.settleRefused(suite)
			if !ended {
				return fmt.Errorf("%s: %w: %s", suite, cut, lastBegun(begun))
			}
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading what became of %s: %w", suite, err)
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			return fmt.Errorf("reading what became of %s: %q is no event", suite, line)
		}
		switch e.Action {
		case "run":
			begun = e.Test
		case "output":
			ended = ended || e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n") // as package testing writes when all tests have run
			if strings.HasPrefix(e.Output, hung) {
				cut = errHung
			}
			refused[e.Test] = refused[e.Test] || strings.Contains(e.Output, ours.Refusal)
			if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "=== ") {
				said[e.Test] = text
			}
		case pass, fail:
			if refused[e.Test] {
				e.Action = refuse
			}
			r[Test{suite, e.Test}] = Outcome{Action: e.Action}
		case skip:
			r[Test{suite, e.Test}] = Outcome{Action: skip, Said: said[e.Test]}
		}
	}
}

// lastBegun says which test of a program was the last to begin, "" for none.
func lastBegun(test string) string {
	if test == "" {
		return "no test began"
	}
	return test + " was the last test to begin"
}

// settleRefused takes a failed test for refused, and the suite as a whole, if nothing below it failed for another reason.
func (r Results) settleRefused(suite string) {
	tests := slices.SortedFunc(maps.Keys(r), func(a, b Test) int { return len(b.Name) - len(a.Name) }) // subtests first
	for _, test := range tests {
		if test.Suite != suite || r[test].Action != fail {
			continue
		}
		below := map[string]int{}
		for other, outcome := range r {
			if other.Suite == suite && other != test && slices.Contains(wholesOf(other), test) {
				below[outcome.Action]++
			}
		}
		if below[refuse] > 0 && below[fail] == 0 {
			r[test] = Outcome{Action: refuse}
		}
	}
}

// count counts tests, without the suites as a whole: those of the top alone, or subtests alone.
func (r Results) count(suite, action string, top bool) (n int) {
	for test, outcome := range r {
		if test.Name != "" && (suite == "" || test.Suite == suite) && outcome.Action == action && top != strings.Contains(test.Name, "/") {
			n++
		}
	}
	return n
}

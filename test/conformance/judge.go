package conformance

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Difference is tests of a suite that pass with stock and fail with ours, all for one reason.
type Difference struct {
	Suite  string   `json:"suite"`
	Reason string   `json:"reason"`
	Tests  []string `json:"tests"`
}

// testsOf returns every test of some differences.
func testsOf(known []Difference) (tests []Test) {
	for _, d := range known {
		for _, name := range d.Tests {
			tests = append(tests, Test{d.Suite, name})
		}
	}
	return tests
}

//go:embed differences.yaml
var differences []byte

// Differences are those that are known.
func Differences() ([]Difference, error) {
	var known []Difference
	if err := yaml.UnmarshalStrict(differences, &known); err != nil {
		return nil, fmt.Errorf("reading the list of differences: %w", err)
	}
	for _, d := range known {
		if d.Suite == "" || len(d.Tests) == 0 || d.Reason == "" {
			return nil, fmt.Errorf("the difference %s/%s lacks its suite, its tests or its reason", d.Suite, strings.Join(d.Tests, ", "))
		}
	}
	return known, nil
}

// Judge says what is wrong: tests that fail and are no known difference, those that are one and pass, and those that were not run. stock is nil
// where only ours was run. Suites that were not run at all are passed over.
func Judge(ours, stock Results, known []Difference) []string {
	ran := map[string]bool{}
	for test := range ours {
		ran[test.Suite] = true
	}
	known = slices.DeleteFunc(slices.Clone(known), func(d Difference) bool { return !ran[d.Suite] })
	wrong, expected := judgeKnown(ours, stock, known)
	for test, outcome := range ours {
		if outcome.Action == fail && !expected[test] && (test.Name != "" || !hasFailed(ours, test.Suite)) {
			wrong = append(wrong, failure(test, stock))
		}
	}
	for test, outcome := range stock {
		if ran[test.Suite] && outcome.Action != skip && ours[test].Action == "" && !isPartOfRefused(ours, test) {
			wrong = append(wrong, fmt.Sprintf("%s: stock was asked, and ours was not", test))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// judgeKnown says which known differences are none, and which tests are expected to fail.
func judgeKnown(ours, stock Results, known []Difference) (wrong []string, expected map[Test]bool) {
	expected = map[Test]bool{}
	for _, test := range testsOf(known) {
		switch {
		case ours[test].Action == "":
			wrong = append(wrong, fmt.Sprintf("%s: there is no such test any more: take it off the list of differences", test))
		case ours[test].Action != fail:
			wrong = append(wrong, fmt.Sprintf("%s: it does not fail any more (%s): take it off the list of differences", test, ours[test].Action))
		case stock != nil && stock[test].Action != pass:
			wrong = append(wrong, fmt.Sprintf("%s: it does not pass with stock either, so it is no difference", test))
		}
		if ours[test].Action == fail {
			for _, whole := range wholesOf(test) {
				expected[whole] = true
			}
		}
	}
	return wrong, expected
}

func failure(test Test, stock Results) string {
	what := test.String()
	if test.Name == "" {
		what += ", after all of its tests have passed"
	}
	switch stock[test].Action {
	case fail:
		return what + ": it fails, and with stock as well"
	case "":
		return what + ": it fails"
	}
	return what + ": it fails, and with stock it does not"
}

// wholesOf are a test, the tests that it is part of, and its suite: they fail with it.
func wholesOf(test Test) []Test {
	all := []Test{{test.Suite, ""}}
	for i, letter := range test.Name {
		if letter == '/' {
			all = append(all, Test{test.Suite, test.Name[:i]})
		}
	}
	return append(all, test)
}

// isPartOfRefused reports whether a test of which a test is part was refused before it came to that.
func isPartOfRefused(results Results, test Test) bool {
	return slices.ContainsFunc(wholesOf(test), func(whole Test) bool { return whole.Name != "" && results[whole].Action == refuse })
}

// hasFailed reports whether a test of a suite failed.
func hasFailed(results Results, suite string) bool {
	for test, outcome := range results {
		if test.Suite == suite && test.Name != "" && outcome.Action == fail {
			return true
		}
	}
	return false
}

// unexpected are the tests of the top of a suite that failed, and are no known difference, nor have one among their subtests.
func unexpected(results Results, suite string, known []Difference) []string {
	var tops []string
	differing := testsOf(known)
	for test, outcome := range results {
		if test.Suite != suite || test.Name == "" || outcome.Action != fail {
			continue
		}
		is := slices.ContainsFunc(differing, func(known Test) bool { return slices.Contains(wholesOf(known), test) })
		if top, _, _ := strings.Cut(test.Name, "/"); !is && !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	slices.Sort(tops)
	return tops
}

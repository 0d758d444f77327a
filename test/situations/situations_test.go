package situations

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// cause is one of the commonest.
type cause struct {
	Setup  string       `json:"setup"`
	Cause  reason.Cause `json:"cause"`
	Advice string       `json:"advice"`
}

// pair is an exception among the pairs of causes.
type pair struct {
	Of      []string       `json:"of"`
	Want    []reason.Cause `json:"want"`
	Because string         `json:"because"`
}

// situation is one in which a job does not run.
type situation struct {
	Name  string         `json:"name"`
	With  []string       `json:"with"`
	Want  []reason.Cause `json:"want"`
	Says  []string       `json:"says"`
	Never []string       `json:"never"`
}

// load reads a file of testdata.
func load[T any](t *testing.T, name string) []T {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// TestEachCauseAlone has the ten commonest causes one by one.
func TestEachCauseAlone(t *testing.T) {
	for _, c := range load[cause](t, "causes.yaml") {
		t.Run(c.Setup, func(t *testing.T) {
			judge(t, situation{With: []string{c.Setup}, Want: []reason.Cause{c.Cause}, Says: []string{c.Advice}})
		})
	}
}

// TestAllPairs has each of the ten commonest causes behind each other one: both are named, the one that has to be mended first before the other, each with
// its own advice.
func TestAllPairs(t *testing.T) {
	causes, exceptions := load[cause](t, "causes.yaml"), load[pair](t, "pairs.yaml")
	for i, first := range causes {
		for _, second := range causes[i+1:] {
			t.Run(first.Setup+" and "+second.Setup, func(t *testing.T) {
				s := situation{With: []string{first.Setup, second.Setup}, Want: []reason.Cause{first.Cause, second.Cause}}
				at := slices.IndexFunc(exceptions, func(p pair) bool { return slices.Equal(p.Of, s.With) })
				if at >= 0 {
					s.Want = exceptions[at].Want
				}
				judge(t, s)
			})
		}
	}
}

// TestSituations has those that are more than two of the commonest causes.
func TestSituations(t *testing.T) {
	for _, s := range load[situation](t, "situations.yaml") {
		t.Run(s.Name, func(t *testing.T) { judge(t, s) })
	}
}

// neverTrue is said of no situation.
var neverTrue = []string{"at most 0", "%!", "<nil>", "[]", "map[", "has room by now"}

// judge makes a situation and compares the answer.
func judge(t *testing.T, s situation) {
	t.Helper()
	w := newWorld()
	for _, name := range s.With {
		setup, ok := setups[name]
		if !ok {
			t.Fatalf("no setup is called %q", name)
		}
		setup(w)
	}
	report := diagnosis.Diagnose(w.facts())
	var got []reason.Cause
	var text strings.Builder
	for _, finding := range report.Findings {
		got = append(got, finding.Cause)
		text.WriteString(string(finding.Cause) + ": " + finding.Text + "\n  - " + strings.Join(finding.Advice, "\n  - ") + "\n")
		if len(finding.Steps) == 0 {
			t.Errorf("nothing is advised about %s", finding.Cause)
		}
		checkChinese(t, finding)
	}
	if !slices.Equal(got, s.Want) {
		t.Errorf("the causes are %v, want %v", got, s.Want)
	}
	if len(got) > 0 && report.Cause != got[0] {
		t.Errorf("the cause is %s, and %s stands first", report.Cause, got[0])
	}
	for _, part := range s.Says {
		if !strings.Contains(text.String(), part) {
			t.Errorf("it does not say %q", part)
		}
	}
	for _, wrong := range slices.Concat(neverTrue, s.Never) {
		if strings.Contains(text.String(), wrong) {
			t.Errorf("it says %q, which is not so", wrong)
		}
	}
	if t.Failed() {
		t.Logf("\n%s", text.String())
	}
}

// checkChinese sees that an answer has Chinese words: the same codes, and no English sentence.
func checkChinese(t *testing.T, finding diagnosis.Finding) {
	t.Helper()
	for _, advice := range finding.AdviceIn(phrase.Chinese) {
		if !strings.ContainsFunc(advice, func(r rune) bool { return r > 0x2e80 }) {
			t.Errorf("%s has no Chinese words for its advice: %q", finding.Cause, advice)
		}
	}
}

package situations

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/test/golden"
)

const (
	docs       = "../../docs/why.md"
	begin, end = "<!-- situations: written by go test ./test/situations -update -->\n", "<!-- end of situations -->"
)

// score counts how the answers to some situations are, and what became of the steps of their advice.
type score struct{ situations, rightFirst, allCauses, mend, inVain, refused, byOthers, falseWords int }

// add counts the answer to a situation.
func (s *score) add(of *Situation) {
	report := diagnosis.Diagnose(of.World().Facts())
	got := causesOf(&report)
	s.situations++
	if len(got) > 0 && len(of.Want) > 0 && got[0] == of.Want[0] {
		s.rightFirst++
	}
	if slices.Equal(got, of.Want) {
		s.allCauses++
	}
	s.addSteps(of, &report)
	s.falseWords += len(falseWords(of, textOf(&report)))
}

// addSteps carries out each step of an answer, and counts what became of it.
func (s *score) addSteps(of *Situation, report *diagnosis.Report) {
	for _, finding := range report.Findings {
		for i := range finding.Steps {
			switch got, err := followStep(of, finding.Cause, &finding.Steps[i]); {
			case err != nil:
				s.refused++
			case got == mends:
				s.mend++
			case got == inVain:
				s.inVain++
			default:
				s.byOthers++
			}
		}
	}
}

// TestTheDocsHaveTheTable compares the table of docs/why.md with the situations.
func TestTheDocsHaveTheTable(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + begin + scoreTable() + end + after
	if golden.Update() {
		if err := os.WriteFile(docs, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s has another table: run go test ./test/situations -update", docs)
	}
}

// scoreTable counts the answers of each group.
func scoreTable() string {
	scores, total := map[Group]*score{}, &score{}
	all := AllSituations()
	for i := range all {
		if scores[all[i].Group] == nil {
			scores[all[i].Group] = &score{}
		}
		scores[all[i].Group].add(&all[i])
		total.add(&all[i])
	}
	var out strings.Builder
	out.WriteString("\n| situations | how many | right cause first | all causes, in order | false statements | steps that mend | in vain | refused | by others |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	row := func(name string, s *score) {
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n",
			name, s.situations, s.rightFirst, s.allCauses, s.falseWords, s.mend, s.inVain, s.refused, s.byOthers)
	}
	for _, group := range Groups {
		row(string(group), scores[group])
	}
	row("all", total)
	return out.String() + "\n"
}

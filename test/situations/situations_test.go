package situations

import (
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestEachSituation has every cause of each situation named, the one that has to be mended first before the others, each with its own advice.
func TestEachSituation(t *testing.T) {
	all := AllSituations()
	if len(all) < 110 {
		t.Errorf("%d situations", len(all))
	}
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) { judgeAnswer(t, &all[i]) })
	}
}

// neverTrue is said of no situation.
var neverTrue = []string{"at most 0", "%!", "<nil>", "[]", "map[", "has room by now"}

// needNoAdvice are causes about which nothing is to be done.
var needNoAdvice = []reason.Cause{reason.Deleted, reason.Succeeded}

// judgeAnswer makes a situation and compares the answer.
func judgeAnswer(t *testing.T, s *Situation) {
	t.Helper()
	report := diagnosis.Diagnose(s.World().Facts())
	got, text := causesOf(&report), textOf(&report)
	if !slices.Equal(got, s.Want) {
		t.Errorf("the causes are %v, want %v", got, s.Want)
	}
	if len(got) > 0 && report.Cause != got[0] {
		t.Errorf("the cause is %s, and %s stands first", report.Cause, got[0])
	}
	for _, finding := range report.Findings {
		if len(finding.Steps) == 0 && !slices.Contains(needNoAdvice, finding.Cause) {
			t.Errorf("nothing is advised about %s", finding.Cause)
		}
		checkChinese(t, finding)
	}
	for _, part := range s.Says {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q", part)
		}
	}
	for _, wrong := range falseWords(s, text) {
		t.Errorf("it says %q, which is not so", wrong)
	}
	if t.Failed() {
		t.Logf("\n%s", text)
	}
}

func causesOf(report *diagnosis.Report) []reason.Cause {
	var out []reason.Cause
	for _, finding := range report.Findings {
		out = append(out, finding.Cause)
	}
	return out
}

// textOf is all that an answer says.
func textOf(report *diagnosis.Report) string {
	var out strings.Builder
	for _, finding := range report.Findings {
		out.WriteString(string(finding.Cause) + ": " + finding.Text + "\n  - " + strings.Join(finding.Advice, "\n  - ") + "\n")
	}
	return out.String()
}

// falseWords are the words of an answer that are not so.
func falseWords(s *Situation, text string) []string {
	return slices.DeleteFunc(slices.Concat(neverTrue, s.Never), func(wrong string) bool { return !strings.Contains(text, wrong) })
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

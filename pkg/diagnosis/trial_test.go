package diagnosis

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

func TestTrySteps(t *testing.T) {
	refuse := func(actions ...reason.Action) func(*Step) Trial {
		return func(s *Step) Trial {
			for _, action := range actions {
				if s.Action == action {
					return Trial{Refused: phrase.Textf("pool %s is not for namespace %s", "a", "team")}
				}
			}
			return Trial{}
		}
	}
	steps := []Step{
		{Action: reason.Move, Message: phrase.Quote("move it")}, {Action: reason.SetField, Message: phrase.Quote("ask for less")},
		{Action: reason.Wait, Message: phrase.Quote("wait")},
	}
	tests := map[string]struct {
		try  func(*Step) Trial
		want string
	}{
		"all are taken":      {refuse(), "move it|or ask for less|or wait"},
		"the first one goes": {refuse(reason.Move), "ask for less|or wait"},
		"nothing is left": {refuse(reason.Move, reason.SetField, reason.Wait),
			"ask the administrators: what could be done about it is refused: pool a is not for namespace team"},
		"a right is missing": {func(s *Step) Trial {
			if s.Action == reason.Move {
				return Trial{Denied: "patch jobs"}
			}
			return Trial{}
		}, "move it; you may not: ask for the right to patch jobs in namespace team, which the role edit has|or ask for less|or wait"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Report{Namespace: "team", Findings: []Finding{{Cause: reason.Busy, Message: phrase.Quote("busy"), Steps: steps}}}
			tried := report.TrySteps(tc.try)
			if got := strings.Join(tried.Findings[0].Advice, "|"); got != tc.want {
				t.Errorf("the advice is %q, want %q", got, tc.want)
			}
			if len(report.Findings[0].Advice) > 0 {
				t.Error("the report itself is changed")
			}
		})
	}
}

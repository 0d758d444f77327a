package submit

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

func TestTrialOf(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	forbidden := func(why string) error { return apierrors.NewForbidden(jobs, "train", errors.New(why)) }
	tests := map[string]struct {
		err             error
		refused, denied string
	}{
		"it is taken":       {},
		"nobody tried":      {err: errUntried},
		"no answer":         {err: apierrors.NewServiceUnavailable("later")},
		"somebody was here": {err: apierrors.NewConflict(jobs, "train", errors.New("changed"))},
		"a right is missing": {
			err:    forbidden(`User "eve" cannot patch resource "jobs" in API group "batch" in the namespace "team"`),
			denied: "patch jobs",
		},
		"a policy": {err: forbidden("exceeded quota: team"), refused: `jobs.batch "train" is forbidden: exceeded quota: team`},
		"a state":  {err: phrase.Errorf("job %q has ended", "train"), refused: `job "train" has ended`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := trialOf(tc.err); got.Refused.String() != tc.refused || got.Denied != tc.denied {
				t.Errorf("refused %q, denied %q; want %q and %q", got.Refused, got.Denied, tc.refused, tc.denied)
			}
		})
	}
}

func TestCanTry(t *testing.T) {
	for name, tc := range map[string]struct {
		step diagnosis.Step
		want bool
	}{
		"its own command":                  {diagnosis.Step{Action: reason.Retry, Command: "gpuctl retry train -n team"}, true},
		"the one of another job":           {diagnosis.Step{Action: reason.Retry, Command: "gpuctl retry prep -n team"}, false},
		"of a namespace that is called so": {diagnosis.Step{Action: reason.Retry, Command: "gpuctl retry prep -n train"}, false},
		"deleting":                         {diagnosis.Step{Action: reason.Cancel, Command: "gpuctl delete train -n team"}, false},
		"of no change":                     {diagnosis.Step{Action: reason.Wait}, false},
		"a field":                          {diagnosis.Step{Action: reason.SetField, Field: reason.FieldGPU, Value: "8"}, true},
		"a taint to be tolerated":          {diagnosis.Step{Action: reason.SetField, Field: reason.FieldTolerations, Value: "team=vision:NoSchedule"}, false},
	} {
		if got := CanTry(&tc.step, "train"); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

package submit

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// errUntried is the outcome of a step that no verb of ours takes, or of which only the user knows the value.
var errUntried = errors.New("not tried")

// TryStep takes a step of a diagnosis as a dry run: the API server checks it with the rights of the user, and nothing is changed.
func (c *Client) TryStep(ctx context.Context, ref Ref, step *diagnosis.Step, opts EditOptions, now time.Time) diagnosis.Trial {
	opts.DryRun, opts.Restart = true, true
	return trialOf(c.takeStep(ctx, ref, step, opts, now))
}

// takeStep takes a step by the verb that its command has.
func (c *Client) takeStep(ctx context.Context, ref Ref, step *diagnosis.Step, opts EditOptions, now time.Time) (err error) {
	switch {
	case !CanTry(step, ref.Name):
		return errUntried
	case step.Action == reason.Resume:
		_, err = c.Resume(ctx, ref, StepOptions{Now: now, DryRun: opts.DryRun})
	case step.Action == reason.Cancel:
		_, err = c.Cancel(ctx, ref, StepOptions{Now: now, DryRun: opts.DryRun})
	case step.Action == reason.Retry:
		opts.AllTasks = strings.Contains(step.Command, "--all-tasks")
		if step.Field != "" {
			opts.Overrides = jobplan.Overrides{Set: []string{step.Field + "=" + step.Value}}
		}
		_, err = c.Retry(ctx, ref, opts)
	case step.Action == reason.Move:
		_, err = c.Move(ctx, ref, step.Value, opts)
	case step.Action == reason.SetPriority:
		_, err = c.SetPriority(ctx, ref, workload.Priority(step.Value), opts)
	case step.Action == reason.SetField:
		err = c.setField(ctx, ref, step, opts)
	default:
		return errUntried
	}
	return err
}

// CanTry reports whether a step changes the job of a name in a way that can be tried. The command of a step about another job names that one,
// deleting is not what cancelling is, a taint and a number of MIG slices are no values of their fields as they stand, and of some fields only the
// user knows the value.
func CanTry(step *diagnosis.Step, name string) bool {
	words := strings.Fields(step.Command)
	isAboutJob := len(words) == 0 || len(words) > 2 && words[2] == name || len(words) > 3 && words[3] == name
	switch step.Action {
	case reason.Resume, reason.Retry:
		return isAboutJob
	case reason.Cancel:
		return isAboutJob && (len(words) < 2 || words[1] == "cancel")
	case reason.Move, reason.SetPriority, reason.SetField:
		return isAboutJob && step.Value != "" && step.Field != reason.FieldTolerations && step.Field != reason.FieldMIG
	}
	return false
}

// setField writes the value of a step into the job's YAML.
func (c *Client) setField(ctx context.Context, ref Ref, step *diagnosis.Step, opts EditOptions) error {
	if step.Field == reason.FieldReplicas {
		replicas, err := strconv.ParseInt(step.Value, 10, 32)
		if err != nil {
			return errUntried
		}
		_, err = c.Scale(ctx, ref, int32(replicas), opts)
		return err
	}
	_, err := c.Rewrite(ctx, ref, func(doc workload.Document) (string, error) {
		return jobplan.Overrides{Set: []string{step.Field + "=" + step.Value}}.Apply(doc.Kind, doc.Source)
	}, opts)
	return err
}

// lackedRight matches the API server's words for a right that a user lacks.
var lackedRight = regexp.MustCompile(`cannot (\S+) resource "([^"]+)"`)

// hasNoDryRun reports whether the API server did not try a request, as a webhook has side effects.
func hasNoDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// trialOf interprets the outcome of a dry run. What is unanswered, or of an object that has changed or gone since, refuses nothing.
func trialOf(err error) diagnosis.Trial {
	right := []string(nil)
	if apierrors.IsForbidden(err) {
		right = lackedRight.FindStringSubmatch(err.Error())
	}
	switch {
	case err == nil, errors.Is(err, errUntried), isUnanswered(err), apierrors.IsConflict(err), apierrors.IsNotFound(err), hasNoDryRun(err):
		return diagnosis.Trial{}
	case right != nil:
		return diagnosis.Trial{Denied: right[1] + " " + right[2]}
	}
	return diagnosis.Trial{Refused: phrase.FromError(err)}
}

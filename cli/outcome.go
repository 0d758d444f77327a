package cli

import (
	"fmt"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// outcomeOf is nil for a job that has succeeded, else an error that says what has come of it instead.
func outcomeOf(job inventory.Job) error {
	switch job.Status {
	case inventory.StatusSucceeded:
		return nil
	case inventory.StatusFailed:
		return &outcomeError{code: exitJobFailed, text: fmt.Sprintf("job %s failed: %s", job.Name, reasonOf(job.Trouble))}
	case inventory.StatusCancelled:
		return &outcomeError{code: exitCancelled, text: fmt.Sprintf("job %s was cancelled", job.Name)}
	case inventory.StatusTerminating:
		return &outcomeError{code: exitNotFinished, text: fmt.Sprintf("job %s was deleted", job.Name)}
	}
	return &outcomeError{code: exitNotFinished, text: fmt.Sprintf("job %s has not finished: it is %s", job.Name, job.Status)}
}

// exitAs is outcomeOf with the exit code that the job's program ended with, where there is one.
func exitAs(job inventory.Job) error {
	err := outcomeOf(job)
	if failure, ok := job.FirstFailure(); ok && job.Status == inventory.StatusFailed {
		return &outcomeError{code: int(failure.ExitCode), text: err.Error()}
	}
	return err
}

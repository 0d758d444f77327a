package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
)

func isSettled(status inventory.Status) bool {
	return slices.Contains([]inventory.Status{
		inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusTerminating, inventory.StatusSuspended,
		inventory.StatusCancelled,
	}, status)
}

// settled tells what a job has come to that waits for nothing.
func settled(job *inventory.JobDetail) Finding {
	switch job.Status {
	case inventory.StatusSucceeded:
		return Finding{Cause: reason.Succeeded, Text: "the job has finished, and well"}
	case inventory.StatusTerminating:
		return Finding{Cause: reason.Deleted, Text: "the job is being deleted"}
	case inventory.StatusSuspended:
		return Finding{Cause: reason.Suspended, Text: job.Message, Steps: []Step{{
			Action: reason.Resume, Command: command("resume", job), Text: "resume it: " + command("resume", job),
		}}}
	case inventory.StatusCancelled:
		return Finding{Cause: reason.Cancelled, Text: "the job was cancelled and holds no GPUs", Steps: []Step{retry(job)}}
	}
	return failed(job)
}

func one(f Finding) []Finding { return []Finding{f} }

// command is the command line that does something to a job.
func command(verb string, job *inventory.JobDetail) string {
	return fmt.Sprintf("gpuctl %s %s -n %s", verb, job.Name, job.Namespace)
}

func retry(job *inventory.JobDetail) Step {
	return Step{Action: reason.Retry, Command: command("retry", job), Text: "start it over: " + command("retry", job)}
}

// incomplete tells of a job whose creation was cut short. Whatever else stands against it may come from that.
func incomplete(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: reason.Incomplete, Text: "not all objects of the job were created: its creation was cut short, or goes on",
		Steps: []Step{
			{Action: reason.CreateAgain, Text: "complete it: gpuctl create with the same file once more"},
			{Action: reason.Cancel, Command: command("delete", job), Text: "delete what there is of it: " + command("delete", job)},
		},
	}
}

// failed tells of a job that has ended badly.
func failed(job *inventory.JobDetail) Finding {
	out := Finding{Cause: reason.Failed, Text: job.Reason + ": " + job.Message}
	if job.Reason == batchv1.JobReasonDeadlineExceeded {
		out.Text = "the job did not end within its time limit"
		if job.TimeLimit > 0 {
			out.Text += " of " + span(job.TimeLimit)
		}
		out.Steps = []Step{
			{Action: reason.Resubmit, Field: reason.FieldTimeLimit, Command: command("delete", job),
				Text: "raise resources.time-limit in its YAML, delete the job, and create it again"},
			inspecting("see how far it came", command("logs", job)),
		}
		return out
	}
	if isOutOfMemory(job.Trouble) {
		again := retry(job)
		again.Text = "let it use less, and " + again.Text
		out.Steps = append(out.Steps, moreMemory(), again)
	} else {
		out.Steps = append(out.Steps, retry(job))
		out.Steps[0].Text = "mend what made it fail, then start it over: " + command("retry", job)
	}
	out.Steps = append(out.Steps, seeLogs(job))
	return out
}

func isOutOfMemory(trouble inventory.Trouble) bool {
	return strings.Contains(trouble.Message, "OOMKilled") || trouble.Reason == "OOMKilled"
}

// moreMemory is what to do about a container that was killed for its memory.
func moreMemory() Step {
	return Step{Action: reason.SetField, Field: reason.FieldMemory, Text: "ask for more memory in resources.memory"}
}

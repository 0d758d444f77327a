package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

func isSettled(status inventory.Status) bool {
	return slices.Contains([]inventory.Status{
		inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusTerminating, inventory.StatusSuspended,
		inventory.StatusCancelled,
	}, status)
}

// settled explains a job in a final state.
func settled(job *inventory.JobDetail) Finding {
	switch job.Status {
	case inventory.StatusSucceeded:
		return Finding{Cause: reason.Succeeded, Says: phrase.Of("the job has finished, and well")}
	case inventory.StatusTerminating:
		return Finding{Cause: reason.Deleted, Says: phrase.Of("the job is being deleted")}
	case inventory.StatusSuspended:
		return Finding{Cause: reason.Suspended, Says: phrase.Quote(job.Message), Steps: []Step{{
			Action: reason.Resume, Command: command("resume", job), Says: phrase.Of("resume it: %s", command("resume", job)),
		}}}
	case inventory.StatusCancelled:
		return Finding{Cause: reason.Cancelled, Says: phrase.Of("the job was cancelled and holds no GPUs"), Steps: []Step{retry(job)}}
	}
	return failed(job)
}

func one(f Finding) []Finding { return []Finding{f} }

// command returns a gpuctl command line for a job.
func command(verb string, job *inventory.JobDetail) string {
	return fmt.Sprintf("gpuctl %s %s -n %s", verb, job.Name, job.Namespace)
}

func retry(job *inventory.JobDetail) Step {
	over := command("retry", job)
	if job.Array != nil && job.Array.Succeeded > 0 {
		over += " --all-tasks"
		return Step{Action: reason.Retry, Command: over, Says: phrase.Of("start all of its tasks over, those that succeeded included: %s", over)}
	}
	return Step{Action: reason.Retry, Command: over, Says: phrase.Of("start it over: %s", over)}
}

// incomplete explains a job whose creation was interrupted. Other findings may follow from that.
func incomplete(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: reason.Incomplete, Says: phrase.Of("not all objects of the job were created: its creation was cut short, or goes on"),
		Steps: []Step{
			{Action: reason.CreateAgain, Says: phrase.Of("complete it: gpuctl create with the same file once more")},
			{Action: reason.Cancel, Command: command("delete", job), Says: phrase.Of("delete what there is of it: %s", command("delete", job))},
		},
	}
}

// failed explains a job that failed.
func failed(job *inventory.JobDetail) Finding {
	out := Finding{Cause: reason.Failed, Says: phrase.Of("%s: %s", job.Reason, job.Message)}
	if job.Reason == batchv1.JobReasonDeadlineExceeded {
		out.Says = phrase.Of("the job did not end within its time limit")
		if job.TimeLimit > 0 {
			out.Says = phrase.Of("the job did not end within its time limit of %s", span(job.TimeLimit))
		}
		out.Steps = []Step{
			{Action: reason.Resubmit, Field: reason.FieldTimeLimit, Command: command("delete", job),
				Says: phrase.Of("raise resources.time-limit in its YAML, delete the job, and create it again")},
			inspecting(phrase.Of("see how far it came"), command("logs", job)),
		}
		return out
	}
	if job.Array != nil && job.Array.Failed > 0 {
		return tasksFailed(job)
	}
	if notUnpacked(job) {
		out.Steps = append(out.Steps, imageThatUnpacks(), seeLogs(job))
		return out
	}
	if isOutOfMemory(job.Trouble) {
		again := retry(job)
		again.Says = phrase.Of("let it use less, and start it over: %s", again.Command)
		out.Steps = append(out.Steps, moreMemory(), again)
	} else {
		out.Steps = append(out.Steps, retry(job))
		out.Steps[0].Says = phrase.Of("mend what made it fail, then start it over: %s", command("retry", job))
	}
	out.Steps = append(out.Steps, seeLogs(job))
	return out
}

// notTold reports that a notification about the job failed. It does not block the job.
func notTold(job *inventory.JobDetail) (Finding, bool) {
	if job.Meta == nil || job.Meta.Annotations[names.AnnotationNotTold] == "" {
		return Finding{}, false
	}
	return Finding{
		Cause: reason.NotTold, Says: phrase.Of("nobody was told how it went: %s", job.Meta.Annotations[names.AnnotationNotTold]),
		Steps: []Step{{Action: reason.AskAdministrators, Says: phrase.Of("ask the administrators of the channel, or name another one")}},
	}, true
}

// notUnpacked reports whether a pod of the job failed before its program started because the uploaded folder was not unpacked.
func notUnpacked(job *inventory.JobDetail) bool {
	return slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool {
		return slices.ContainsFunc(pod.Containers, func(c inventory.ContainerState) bool {
			return c.Name == names.ContainerUnpack && c.ExitCode != nil && *c.ExitCode != 0
		})
	})
}

// imageThatUnpacks is the remedy if the job's image cannot unpack the uploaded folder.
func imageThatUnpacks() Step {
	return Step{Action: reason.SetField, Field: reason.FieldImage,
		Says: phrase.Of("job.workdir is unpacked in the job's own image: use one with sh, tar and gzip in environment.image, or put the code into it")}
}

// tasksFailed explains an array in which some tasks used up their retries.
func tasksFailed(job *inventory.JobDetail) Finding {
	first, _, _ := strings.Cut(job.Array.FailedTasks, ",")
	first, _, _ = strings.Cut(first, "-")
	again := retry(job)
	again.Says = phrase.Of("mend what made them fail, then %s", again.Says)
	out := Finding{
		Cause: reason.Failed,
		Says: phrase.Of("%d of its %d tasks failed (%s), %d succeeded: %s", job.Array.Failed, job.Array.Tasks, job.Array.FailedTasks,
			job.Array.Succeeded, job.Message),
		Steps: []Step{inspecting(phrase.Of("see what the first of them printed"), command("logs", job)+" --index "+first), again},
	}
	late := 0
	for i := range job.Pods {
		if job.Pods[i].Reason == batchv1.JobReasonDeadlineExceeded { // the node's word is the same
			late++
		}
	}
	if late > 0 && job.TimeLimit > 0 {
		out.Says = out.Says.And(". Runs that the time limit of %s ended: %d", span(job.TimeLimit), late)
		out.Steps = append([]Step{{Action: reason.Resubmit, Field: reason.FieldTimeLimit, Command: command("delete", job),
			Says: phrase.Of("raise resources.time-limit in its YAML, delete the job, and create it again")}}, out.Steps...)
	}
	return out
}

func isOutOfMemory(trouble inventory.Trouble) bool {
	return strings.Contains(trouble.Message, "OOMKilled") || trouble.Reason == "OOMKilled"
}

// moreMemory is the remedy for a container that was killed for its memory.
func moreMemory() Step {
	return Step{Action: reason.SetField, Field: reason.FieldMemory, Says: phrase.Of("ask for more memory in resources.memory")}
}

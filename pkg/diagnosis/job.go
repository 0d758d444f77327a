package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func isSettled(status inventory.Status) bool {
	return slices.Contains([]inventory.Status{
		inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusTerminating, inventory.StatusSuspended,
		inventory.StatusCancelled,
	}, status)
}

// explainSettledJob explains a job in a final state.
func explainSettledJob(job *inventory.JobDetail) Finding {
	switch job.Status {
	case inventory.StatusSucceeded:
		return Finding{Cause: reason.Succeeded, Message: phrase.Textf("the job has finished, and well")}
	case inventory.StatusTerminating:
		return Finding{Cause: reason.Deleted, Message: phrase.Textf("the job is being deleted")}
	case inventory.StatusSuspended:
		return Finding{Cause: reason.Suspended, Message: phrase.FromEnglish(job.Message), Steps: []Step{{
			Action: reason.Resume, Command: gpuctlCommand("resume", job), Message: phrase.Textf("resume it: %s", gpuctlCommand("resume", job)),
		}}}
	case inventory.StatusCancelled:
		return Finding{Cause: reason.Cancelled, Message: phrase.Textf("the job was cancelled and holds no GPUs"), Steps: []Step{retryStep(job)}}
	}
	return explainFailedJob(job)
}

func singleFinding(f Finding) []Finding { return []Finding{f} }

// gpuctlCommand returns a gpuctl command line for a job.
func gpuctlCommand(verb string, job *inventory.JobDetail) string {
	return fmt.Sprintf("gpuctl %s %s -n %s", verb, job.Name, job.Namespace)
}

func retryStep(job *inventory.JobDetail) Step {
	over := gpuctlCommand("retry", job)
	if job.Array != nil && job.Array.Succeeded > 0 {
		over += " --all-tasks"
		return Step{Action: reason.Retry, Command: over, Message: phrase.Textf("start all of its tasks over, those that succeeded included: %s", over)}
	}
	return Step{Action: reason.Retry, Command: over, Message: phrase.Textf("start it over: %s", over)}
}

// explainIncompleteJob explains a job whose creation was interrupted. Other findings may follow from that.
func explainIncompleteJob(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: reason.Incomplete, Message: phrase.Textf("not all objects of the job were created: its creation was cut short, or goes on"),
		Steps: []Step{
			{Action: reason.CreateAgain, Message: phrase.Textf("complete it: gpuctl create with the same file once more")},
			{Action: reason.Cancel, Command: gpuctlCommand("delete", job), Message: phrase.Textf("delete what there is of it: %s", gpuctlCommand("delete", job))},
		},
	}
}

// explainFailedJob explains a job that failed.
func explainFailedJob(job *inventory.JobDetail) Finding {
	out := Finding{Cause: reason.Failed, Message: phrase.Textf("%s: %s", job.Reason, phrase.FromEnglish(job.Message))}
	if job.Reason == batchv1.JobReasonDeadlineExceeded {
		out.Message = phrase.Textf("the job did not end within its time limit")
		if job.TimeLimit > 0 {
			out.Message = phrase.Textf("the job did not end within its time limit of %s", durationText(job.TimeLimit))
		}
		out.Steps = []Step{
			moreTime(job),
			inspectStep(phrase.Textf("see how far it came"), gpuctlCommand("logs", job)),
		}
		return out
	}
	if job.Array != nil && job.Array.Failed > 0 {
		return tasksFailed(job)
	}
	if notUnpacked(job) {
		out.Steps = append(out.Steps, imageThatUnpacks(), logsStep(job))
		return out
	}
	if isOutOfMemory(job.Trouble) {
		again := retryStep(job)
		again.Message = phrase.Textf("let it use less, and start it over: %s", again.Command)
		out.Steps = append(out.Steps, retryWithMemory(job), again)
	} else {
		out.Steps = append(out.Steps, retryStep(job))
		out.Steps[0].Message = phrase.Textf("mend what made it fail, then start it over: %s", gpuctlCommand("retry", job))
	}
	out.Steps = append(out.Steps, logsStep(job))
	return out
}

// explainFailedNotification reports that a notification about the job failed. It does not block the job.
func explainFailedNotification(job *inventory.JobDetail) (Finding, bool) {
	if job.Meta == nil || job.Meta.Annotations[names.AnnotationNotifyFailed] == "" {
		return Finding{}, false
	}
	return Finding{
		Cause: reason.NotificationFailed, Message: phrase.Textf("nobody was told how it went: %s", job.Meta.Annotations[names.AnnotationNotifyFailed]),
		Steps: []Step{{Action: reason.AskAdministrators, Message: phrase.Textf("ask the administrators of the channel, or name another one")}},
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
		Message: phrase.Textf("job.workdir is unpacked in the job's own image: use one with sh, tar and gzip in environment.image, or put the code into it")}
}

// tasksFailed explains an array in which some tasks used up their retries.
func tasksFailed(job *inventory.JobDetail) Finding {
	first, _, _ := strings.Cut(job.Array.FailedTasks, ",")
	first, _, _ = strings.Cut(first, "-")
	again := retryStep(job)
	again.Message = phrase.Textf("mend what made them fail, then %s", again.Message)
	out := Finding{
		Cause: reason.Failed,
		Message: phrase.Textf("%d of its %d tasks failed (%s), %d succeeded: %s", job.Array.Failed, job.Array.Tasks, job.Array.FailedTasks,
			job.Array.Succeeded, phrase.FromEnglish(job.Message)),
		Steps: []Step{inspectStep(phrase.Textf("see what the first of them printed"), gpuctlCommand("logs", job)+" --index "+first), again},
	}
	late := 0
	for i := range job.Pods {
		if job.Pods[i].Reason == batchv1.JobReasonDeadlineExceeded { // the node's word is the same
			late++
		}
	}
	if late > 0 && job.TimeLimit > 0 {
		out.Message = out.Message.Addf(". Runs that the time limit of %s ended: %d", durationText(job.TimeLimit), late)
		out.Steps = append([]Step{moreTime(job)}, out.Steps...)
	}
	return out
}

// moreTime is the remedy for a job that its time limit ended: to start over with twice the time. A job that has ended can be edited no more.
func moreTime(job *inventory.JobDetail) Step {
	return retryWith(job, reason.FieldTimeLimit, workload.DurationText(2*max(job.TimeLimit, time.Minute)))
}

// retryWithMemory is the remedy for a job that ended because it used more memory than it asked for: to start over with twice as much.
func retryWithMemory(job *inventory.JobDetail) Step {
	asked, err := resource.ParseQuantity(job.Container.Requests[string(corev1.ResourceMemory)])
	if err != nil || asked.Sign() <= 0 {
		return moreMemory()
	}
	asked.Add(asked)
	return retryWith(job, reason.FieldMemory, asked.String())
}

// retryWith is the step that starts a job over with another value of a field.
func retryWith(job *inventory.JobDetail, field, value string) Step {
	step := retryStep(job)
	step.Field, step.Value = field, value
	step.Command += " --set " + field + "=" + value
	step.Message = phrase.Textf("start it over with more of %s, for example: %s", field, step.Command)
	return step
}

func isOutOfMemory(trouble inventory.Trouble) bool {
	return strings.Contains(trouble.Message, "OOMKilled") || trouble.Reason == "OOMKilled"
}

// moreMemory is the remedy for a container that was killed for its memory.
func moreMemory() Step {
	return Step{Action: reason.SetField, Field: reason.FieldMemory, Message: phrase.Textf("ask for more memory in resources.memory")}
}

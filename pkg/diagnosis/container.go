package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainNotStarted explains a pod that has its node and its GPUs, and does not run.
func explainNotStarted(f *Facts, pod *corev1.Pod) Finding {
	job := &f.Job
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if waiting := statuses[i].State.Waiting; waiting != nil {
			if finding, ok := waitingContainer(job, &statuses[i], waiting); ok {
				return finding
			}
		}
	}
	starts := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
	if event, ok := findEvent(job.Events, pod, "FailedMount", "FailedAttachVolume"); ok && starts {
		return Finding{
			Cause: reason.VolumeMount, Message: phrase.Textf("node %s cannot mount a volume: %s; tried %s", pod.Spec.NodeName, event.Message, f.sinceText(event.Last)),
			Steps: []Step{
				{Action: reason.SetField, Field: reason.FieldWorkdirs, Message: phrase.Textf("check that the paths of storage.workdirs exist on the node, and correct them")},
				inspectStep(phrase.Textf("see the volumes"), "kubectl describe pod "+pod.Name+" -n "+pod.Namespace)},
		}
	}
	if event, ok := findEvent(job.Events, pod, "Unhealthy"); ok && pod.Status.Phase == corev1.PodRunning {
		return Finding{
			Cause: reason.ProbeFailing, Message: phrase.Textf("the containers run, and are not ready: %s; last %s", event.Message, f.sinceText(event.Last)),
			Steps: []Step{{Action: reason.SetField, Field: "service.health-check",
				Message: phrase.Textf("check service.health-check and service.port against what the program serves")}, logsStep(job)},
		}
	}
	out := Finding{
		Cause: reason.Starting, Message: phrase.Textf("node %s prepares the containers: %s", pod.Spec.NodeName, quoteOr(job.Message, phrase.Textf("images and volumes"))),
		Steps: []Step{waitStep("wait: the node fetches the image and mounts the volumes, which may take minutes")},
	}
	if pod.Status.Phase == corev1.PodRunning {
		out.Message = phrase.Textf("the containers on node %s run, and are not ready yet: %s", pod.Spec.NodeName, quoteOr(job.Message, phrase.Textf("their probe has not succeeded")))
		out.Steps = []Step{waitStep("wait: loading a large model takes minutes"), logsStep(job)}
	}
	return out
}

func logsStep(job *inventory.JobDetail) Step {
	return inspectStep(phrase.Textf("see what it wrote"), gpuctlCommand("logs", job))
}

// missingObject matches kubelet's message about an object that a container refers to and that the namespace does not have.
var missingObject = regexp.MustCompile(`(?i)(secret|configmap) "([^"]+)" not found`)

// missingKey matches its message about a missing key of such an object.
var missingKey = regexp.MustCompile(`couldn't find key (\S+) in (Secret|ConfigMap) \S+/(\S+)`)

// waitingContainer explains a container that cannot start. It returns false for one that is starting.
func waitingContainer(job *inventory.JobDetail, status *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) (Finding, bool) {
	switch {
	case waiting.Reason == "CrashLoopBackOff":
		return explainCrash(job, status), true
	case reason.CauseOfContainer(status) == reason.ImagePull:
		return Finding{
			Cause: reason.ImagePull, Message: withDetail(phrase.Textf("image %s cannot be pulled", status.Image), waiting.Message),
			Steps: []Step{
				{Action: reason.SetField, Field: reason.FieldImage, Message: phrase.Textf("check the image's name and tag, and correct them in environment.image")},
				{Action: reason.SetField, Field: "environment.image-pull-secret",
					Message: phrase.Textf("if the registry is private, name a secret of the namespace in environment.image-pull-secret")},
			},
		}, true
	case reason.CauseOfContainer(status) == reason.ContainerConfig:
		return explainContainerConfig(status, waiting), true
	case reason.CauseOfContainer(status) == reason.ContainerStart:
		return Finding{
			Cause: reason.ContainerStart, Message: withDetail(phrase.Textf("the node cannot start container %s (%s)", status.Name, waiting.Reason), crashedWith(waiting.Message, status)),
			Steps: []Step{
				{Action: reason.SetField, Field: "environment.command", Message: phrase.Textf("check that the image has the program, and correct environment.command")},
				{Action: reason.AskAdministrators, Message: phrase.Textf("if the message names a device or the runtime, tell the administrators about the node")},
			},
		}, true
	}
	return Finding{}, false
}

// explainContainerConfig explains a container that refers to missing objects.
func explainContainerConfig(status *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) Finding {
	out := Finding{Cause: reason.ContainerConfig, Message: withDetail(phrase.Textf("container %s cannot be created", status.Name), waiting.Message)}
	kinds := map[string]string{"secret": "Secret", "configmap": "ConfigMap"}
	correct := Step{Action: reason.SetField, Field: "environment.env", Message: phrase.Textf("correct its name in environment.env of the job")}
	if m := missingObject.FindStringSubmatch(waiting.Message); m != nil {
		kind := kinds[strings.ToLower(m[1])]
		out.Steps = []Step{{Action: reason.CreateObject, Kind: kind, Name: m[2], Message: phrase.Textf("create the %s %s in this namespace", kind, m[2])}, correct}
		return out
	}
	if m := missingKey.FindStringSubmatch(waiting.Message); m != nil {
		out.Steps = []Step{{Action: reason.CreateObject, Kind: m[2], Name: m[3], Field: m[1], Message: phrase.Textf("add the key %s to the %s %s", m[1], m[2], m[3])}, correct}
		return out
	}
	correct.Message = phrase.Textf("create the Secret or ConfigMap that the message names, or correct its name in the job")
	out.Steps = []Step{correct}
	return out
}

// crashedWith adds to a message how the container last ended.
func crashedWith(message string, status *corev1.ContainerStatus) string {
	last := status.LastTerminationState.Terminated
	if message != "" || last == nil {
		return message
	}
	return last.Message
}

func explainCrash(job *inventory.JobDetail, status *corev1.ContainerStatus) Finding {
	ended := status.LastTerminationState.Terminated
	if ended == nil {
		return Finding{Cause: reason.Crashing, Message: phrase.Textf("container %s keeps ending", status.Name), Steps: []Step{logsStep(job)}}
	}
	switch reason.CauseOfContainer(status) {
	case reason.OutOfMemory:
		return Finding{
			Cause: reason.OutOfMemory, Message: phrase.Textf("container %s used more memory than it asked for, and was killed %s", status.Name, countTimes(status.RestartCount)),
			Steps: []Step{moreMemory()},
		}
	case reason.ContainerStart:
		return Finding{
			Cause: reason.ContainerStart, Message: withDetail(phrase.Textf("the node cannot start container %s", status.Name), ended.Message),
			Steps: []Step{{Action: reason.SetField, Field: "environment.command", Message: phrase.Textf("check that the image has the program, and correct environment.command")}},
		}
	}
	look := logsStep(job)
	return Finding{
		Cause: reason.Crashing,
		Message: withDetail(phrase.Textf("container %s ended %s, the last time with exit code %d", status.Name, countTimes(status.RestartCount), ended.ExitCode),
			ended.Message),
		Steps: []Step{{Action: reason.SetField, Field: "environment.command", Message: phrase.Textf("mend the program or its arguments in environment.command or environment.image")}, look},
	}
}

func countTimes(count int32) phrase.Text {
	if count == 1 {
		return phrase.Textf("once")
	}
	return phrase.Textf("%d times", count)
}

func withDetail(what phrase.Text, detail string) phrase.Text {
	if detail == "" {
		return what
	}
	return what.Addf(": %s", phrase.FromEnglish(strings.TrimSpace(detail)))
}

// quoteOr quotes a message, of which ours have translations, or returns the alternative if the message is empty.
func quoteOr(said string, otherwise phrase.Text) phrase.Text {
	if said != "" {
		return phrase.FromEnglish(said)
	}
	return otherwise
}

// findEvent returns the newest event of a pod with one of the reasons. Events of earlier pods do not apply to this one.
func findEvent(events []inventory.Event, pod *corev1.Pod, reasons ...string) (inventory.Event, bool) {
	for _, event := range slices.Backward(events) {
		if slices.Contains(reasons, event.Reason) && event.Object == "Pod/"+pod.Name {
			return event, true
		}
	}
	return inventory.Event{}, false
}

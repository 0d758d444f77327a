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

// notStarted explains a pod that has its node and its GPUs, and does not run.
func notStarted(f *Facts, pod *corev1.Pod) []Finding {
	job := &f.Job
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if waiting := statuses[i].State.Waiting; waiting != nil {
			if finding, ok := waitingContainer(job, &statuses[i], waiting); ok {
				return one(finding)
			}
		}
	}
	starts := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
	if event, ok := eventOf(job.Events, pod, "FailedMount", "FailedAttachVolume"); ok && starts {
		return one(Finding{
			Cause: reason.VolumeMount, Says: phrase.Of("node %s cannot mount a volume: %s; tried %s", pod.Spec.NodeName, event.Message, f.since(event.Last)),
			Steps: []Step{
				{Action: reason.SetField, Field: reason.FieldWorkdirs, Says: phrase.Of("check that the paths of storage.workdirs exist on the node, and correct them")},
				inspecting(phrase.Of("see the volumes"), "kubectl describe pod "+pod.Name+" -n "+pod.Namespace)},
		})
	}
	if event, ok := eventOf(job.Events, pod, "Unhealthy"); ok && pod.Status.Phase == corev1.PodRunning {
		return one(Finding{
			Cause: reason.ProbeFailing, Says: phrase.Of("the containers run, and are not ready: %s; last %s", event.Message, f.since(event.Last)),
			Steps: []Step{{Action: reason.SetField, Field: "service.health-check",
				Says: phrase.Of("check service.health-check and service.port against what the program serves")}, seeLogs(job)},
		})
	}
	out := Finding{
		Cause: reason.Starting, Says: phrase.Of("node %s prepares the containers: %s", pod.Spec.NodeName, orElse(job.Message, phrase.Of("images and volumes"))),
		Steps: []Step{waiting("wait: the node fetches the image and mounts the volumes, which may take minutes")},
	}
	if pod.Status.Phase == corev1.PodRunning {
		out.Says = phrase.Of("the containers on node %s run, and are not ready yet: %s", pod.Spec.NodeName, orElse(job.Message, phrase.Of("their probe has not succeeded")))
		out.Steps = []Step{waiting("wait: loading a large model takes minutes"), seeLogs(job)}
	}
	return one(out)
}

func seeLogs(job *inventory.JobDetail) Step {
	return inspecting(phrase.Of("see what it wrote"), command("logs", job))
}

// missingObject matches kubelet's message about an object that a container refers to and that the namespace does not have.
var missingObject = regexp.MustCompile(`(?i)(secret|configmap) "([^"]+)" not found`)

// missingKey matches its message about a missing key of such an object.
var missingKey = regexp.MustCompile(`couldn't find key (\S+) in (Secret|ConfigMap) \S+/(\S+)`)

// waitingContainer explains a container that cannot start. It returns false for one that is starting.
func waitingContainer(job *inventory.JobDetail, status *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) (Finding, bool) {
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed":
		return Finding{
			Cause: reason.ImagePull, Says: sentence(phrase.Of("image %s cannot be pulled", status.Image), waiting.Message),
			Steps: []Step{
				{Action: reason.SetField, Field: reason.FieldImage, Says: phrase.Of("check the image's name and tag, and correct them in environment.image")},
				{Action: reason.SetField, Field: "environment.image-pull-secret",
					Says: phrase.Of("if the registry is private, name a secret of the namespace in environment.image-pull-secret")},
			},
		}, true
	case "CreateContainerConfigError":
		return unconfigured(status, waiting), true
	case "CreateContainerError", "RunContainerError", "StartError", "RunInitContainerError", "PostStartHookError", "PreCreateHookError",
		"PreStartHookError", "CreatePodSandboxError", "ContainerStatusUnknown":
		return Finding{
			Cause: reason.ContainerStart, Says: sentence(phrase.Of("the node cannot start container %s (%s)", status.Name, waiting.Reason), crashedWith(waiting.Message, status)),
			Steps: []Step{
				{Action: reason.SetField, Field: "environment.command", Says: phrase.Of("check that the image has the program, and correct environment.command")},
				{Action: reason.AskAdministrators, Says: phrase.Of("if the message names a device or the runtime, tell the administrators about the node")},
			},
		}, true
	case "CrashLoopBackOff":
		return crashing(job, status), true
	}
	return Finding{}, false
}

// unconfigured explains a container that refers to missing objects.
func unconfigured(status *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) Finding {
	out := Finding{Cause: reason.ContainerConfig, Says: sentence(phrase.Of("container %s cannot be created", status.Name), waiting.Message)}
	kinds := map[string]string{"secret": "Secret", "configmap": "ConfigMap"}
	correct := Step{Action: reason.SetField, Field: "environment.env", Says: phrase.Of("correct its name in environment.env of the job")}
	if m := missingObject.FindStringSubmatch(waiting.Message); m != nil {
		kind := kinds[strings.ToLower(m[1])]
		out.Steps = []Step{{Action: reason.CreateObject, Kind: kind, Name: m[2], Says: phrase.Of("create the %s %s in this namespace", kind, m[2])}, correct}
		return out
	}
	if m := missingKey.FindStringSubmatch(waiting.Message); m != nil {
		out.Steps = []Step{{Action: reason.CreateObject, Kind: m[2], Name: m[3], Field: m[1], Says: phrase.Of("add the key %s to the %s %s", m[1], m[2], m[3])}, correct}
		return out
	}
	correct.Says = phrase.Of("create the Secret or ConfigMap that the message names, or correct its name in the job")
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

func crashing(job *inventory.JobDetail, status *corev1.ContainerStatus) Finding {
	ended := status.LastTerminationState.Terminated
	if ended == nil {
		return Finding{Cause: reason.Crashing, Says: phrase.Of("container %s keeps ending", status.Name), Steps: []Step{seeLogs(job)}}
	}
	switch ended.Reason {
	case "OOMKilled":
		return Finding{
			Cause: reason.OutOfMemory, Says: phrase.Of("container %s used more memory than it asked for, and was killed %s", status.Name, times(status.RestartCount)),
			Steps: []Step{moreMemory()},
		}
	case "StartError", "ContainerCannotRun":
		return Finding{
			Cause: reason.ContainerStart, Says: sentence(phrase.Of("the node cannot start container %s", status.Name), ended.Message),
			Steps: []Step{{Action: reason.SetField, Field: "environment.command", Says: phrase.Of("check that the image has the program, and correct environment.command")}},
		}
	}
	look := seeLogs(job)
	return Finding{
		Cause: reason.Crashing,
		Says: sentence(phrase.Of("container %s ended %s, the last time with exit code %d", status.Name, times(status.RestartCount), ended.ExitCode),
			ended.Message),
		Steps: []Step{{Action: reason.SetField, Field: "environment.command", Says: phrase.Of("mend the program or its arguments in environment.command or environment.image")}, look},
	}
}

func times(count int32) phrase.Text {
	if count == 1 {
		return phrase.Of("once")
	}
	return phrase.Of("%d times", count)
}

func sentence(what phrase.Text, detail string) phrase.Text {
	if detail == "" {
		return what
	}
	return what.And(": %s", strings.TrimSpace(detail))
}

// orElse quotes a message, or returns the alternative if the message is empty.
func orElse(said string, otherwise phrase.Text) phrase.Text {
	if said != "" {
		return phrase.Quote(said)
	}
	return otherwise
}

// eventOf returns the newest event of a pod with one of the reasons. Events of earlier pods do not apply to this one.
func eventOf(events []inventory.Event, pod *corev1.Pod, reasons ...string) (inventory.Event, bool) {
	for _, event := range slices.Backward(events) {
		if slices.Contains(reasons, event.Reason) && event.Object == "Pod/"+pod.Name {
			return event, true
		}
	}
	return inventory.Event{}, false
}

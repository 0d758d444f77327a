package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// notStarted explains a pod that has its node and its GPUs, and does not run.
func notStarted(job *inventory.JobDetail, pod *corev1.Pod) []Finding {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if waiting := statuses[i].State.Waiting; waiting != nil {
			if finding, ok := waitingContainer(job, &statuses[i], waiting); ok {
				return one(finding)
			}
		}
	}
	if event, ok := lastEvent(job.Events, "FailedMount", "FailedAttachVolume"); ok {
		return one(Finding{
			Cause: VolumeMount, Text: fmt.Sprintf("node %s cannot mount a volume: %s", pod.Spec.NodeName, event.Message),
			Advice: []string{"check that the paths of workdirs exist on the node, and the volumes in the cluster"},
		})
	}
	if event, ok := lastEvent(job.Events, "Unhealthy"); ok && pod.Status.Phase == corev1.PodRunning {
		return one(Finding{
			Cause: ProbeFailing, Text: "the containers run, and are not ready: " + event.Message,
			Advice: []string{"check service.health-check and service.port against what the program serves", logsAdvice(job)},
		})
	}
	return one(Finding{
		Cause: Starting, Text: fmt.Sprintf("node %s prepares the containers: %s", pod.Spec.NodeName, cmp.Or(job.Message, "images and volumes")),
		Advice: []string{"wait: a large image takes minutes to pull"},
	})
}

func logsAdvice(job *inventory.JobDetail) string {
	return "see what it wrote: gpuctl logs " + job.Name + " -n " + job.Namespace
}

// waitingContainer explains a container that cannot start. It reports false for one on its way up.
func waitingContainer(job *inventory.JobDetail, status *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) (Finding, bool) {
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
		return Finding{
			Cause: ImagePull, Text: sentence(fmt.Sprintf("image %s cannot be pulled", status.Image), waiting.Message),
			Advice: []string{
				"check the image's name and tag in environment.image",
				"if the registry is private, name a secret of the namespace in environment.image-pull-secret",
			},
		}, true
	case "CreateContainerConfigError", "CreateContainerError":
		return Finding{
			Cause: ContainerConfig, Text: sentence(fmt.Sprintf("container %s cannot be created", status.Name), waiting.Message),
			Advice: []string{"create the Secret or ConfigMap that the message names, or correct its name in the job"},
		}, true
	case "CrashLoopBackOff":
		return crashing(job, status), true
	}
	return Finding{}, false
}

func crashing(job *inventory.JobDetail, status *corev1.ContainerStatus) Finding {
	ended := status.LastTerminationState.Terminated
	if ended == nil {
		return Finding{Cause: Crashing, Text: fmt.Sprintf("container %s keeps ending", status.Name), Advice: []string{logsAdvice(job)}}
	}
	if ended.Reason == "OOMKilled" {
		return Finding{
			Cause: OutOfMemory, Text: fmt.Sprintf("container %s used more memory than it asked for, and was killed %d times", status.Name, status.RestartCount),
			Advice: []string{"ask for more memory in resources.memory, or use less"},
		}
	}
	return Finding{
		Cause:  Crashing,
		Text:   fmt.Sprintf("container %s ended %d times, the last time with exit code %d", status.Name, status.RestartCount, ended.ExitCode),
		Advice: []string{logsAdvice(job)},
	}
}

func sentence(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + strings.TrimSpace(detail)
}

// lastEvent returns the newest event with one of the reasons.
func lastEvent(events []inventory.Event, reasons ...string) (inventory.Event, bool) {
	for _, event := range slices.Backward(events) {
		if slices.Contains(reasons, event.Reason) {
			return event, true
		}
	}
	return inventory.Event{}, false
}

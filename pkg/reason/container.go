package reason

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// startingWords are kubelet's words for a container that is on its way. With any other it cannot start.
var startingWords = []string{"", "ContainerCreating", "PodInitializing"}

// pullWords are its words for an image that is not there.
var pullWords = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// reasonOOMKilled is the word of container runtimes for a container that used more memory than it asked for.
const reasonOOMKilled = "OOMKilled"

// CauseOfContainer is why a container does not run, by its status; "" for one that runs, has ended, or is on its way.
func CauseOfContainer(status *corev1.ContainerStatus) Cause {
	waiting := status.State.Waiting
	switch {
	case waiting == nil || slices.Contains(startingWords, waiting.Reason):
		return ""
	case slices.Contains(pullWords, waiting.Reason):
		return ImagePull
	case waiting.Reason == "CreateContainerConfigError":
		return ContainerConfig
	case waiting.Reason == "CrashLoopBackOff":
		return causeOfCrash(status.LastTerminationState.Terminated)
	}
	return ContainerStart
}

// causeOfCrash is why a container keeps ending, by its last end.
func causeOfCrash(last *corev1.ContainerStateTerminated) Cause {
	switch {
	case last == nil:
		return Crashing
	case last.Reason == reasonOOMKilled:
		return OutOfMemory
	case last.Reason == "StartError" || last.Reason == "ContainerCannotRun":
		return ContainerStart
	}
	return Crashing
}

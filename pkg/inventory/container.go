package inventory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ContainerState is the state of a container of a pod. The times and the exit code are those of its newest run.
type ContainerState struct {
	Name string `json:"name"`
	// Init containers run before the others.
	Init    bool `json:"init,omitempty"`
	Running bool `json:"running"`
	// Started is nil as long as the container has never run.
	Started *time.Time `json:"started,omitempty"`
	// Ended is nil as long as the container runs, or has never run.
	Ended    *time.Time `json:"ended,omitempty"`
	ExitCode *int32     `json:"exitCode,omitempty"`
	// Restarts is how often the container ran before its newest run.
	Restarts int32 `json:"restarts"`
}

// buildContainers returns the containers in the order of the pod, those for initialisation first.
func buildContainers(pod *corev1.Pod) []ContainerState {
	var out []ContainerState
	for i := range pod.Status.InitContainerStatuses {
		state := buildContainerState(&pod.Status.InitContainerStatuses[i])
		state.Init = true
		out = append(out, state)
	}
	for i := range pod.Status.ContainerStatuses {
		out = append(out, buildContainerState(&pod.Status.ContainerStatuses[i]))
	}
	return out
}

func buildContainerState(status *corev1.ContainerStatus) ContainerState {
	out := ContainerState{Name: status.Name, Restarts: status.RestartCount}
	ended := status.State.Terminated
	switch {
	case status.State.Running != nil:
		out.Running = true
		out.Started = &status.State.Running.StartedAt.Time
		return out
	case ended == nil: // it waits, perhaps to run once more
		ended = status.LastTerminationState.Terminated
	}
	if ended != nil {
		out.Started, out.Ended, out.ExitCode = &ended.StartedAt.Time, &ended.FinishedAt.Time, &ended.ExitCode
	}
	return out
}

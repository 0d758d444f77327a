package inventory

// Failure is a container that ended badly.
type Failure struct {
	Pod       string
	Container string
	ExitCode  int32
}

// FirstFailure returns the container that ended badly before all others: it is the one to look at. When one rank of
// a job of several nodes fails, the others are killed, and their exit codes say nothing. Nor do those of pods that were
// told to leave their places.
func (j Job) FirstFailure() (Failure, bool) {
	var first Failure
	var earliest ContainerState
	for _, pod := range j.Pods {
		if pod.disrupted {
			continue
		}
		for _, container := range pod.Containers {
			if container.Ended == nil || container.ExitCode == nil || *container.ExitCode == 0 {
				continue
			}
			if earliest.Ended == nil || container.Ended.Before(*earliest.Ended) {
				earliest = container
				first = Failure{Pod: pod.Name, Container: container.Name, ExitCode: *container.ExitCode}
			}
		}
	}
	return first, earliest.Ended != nil
}

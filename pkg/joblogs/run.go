package joblogs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// run is one run of a container, and has a log of its own.
type run struct {
	Source
	id runID
	// over says that the container has ended: its log does not grow any more.
	over bool
}

// runID tells runs apart. The time tells a container that was restarted from itself before.
type runID struct {
	pod       types.UID
	container string
	started   int64
}

// runsOf returns the runs of a job that have output and that the options choose, in the order of their pods.
func runsOf(job inventory.Job, o *Options) ([]run, error) {
	pods, err := chosenPods(job, o)
	if err != nil {
		return nil, err
	}
	var out []run
	for _, pod := range pods {
		container, err := chosenContainer(pod, o.Container)
		switch {
		case err != nil:
			return nil, err
		case container == nil, container.Started == nil, o.Previous && container.Restarts == 0:
			continue
		}
		out = append(out, run{
			Source: Source{Pod: pod.Name, Container: container.Name, Rank: pod.Rank, Again: isAgain(job, pod)},
			id:     runID{pod: pod.UID, container: container.Name, started: container.Started.Unix()},
			over:   !container.Running,
		})
	}
	at := len(out)
	if o.Follow { // what has ended is read in turn
		at = 0
		for i := range out {
			if !out[i].over {
				at++
			}
		}
	}
	if most := o.maxStreams(); at > most {
		return nil, &TooManyError{Job: job.Name, Containers: at, Max: most}
	}
	return out, nil
}

func chosenPods(job inventory.Job, o *Options) ([]inventory.Pod, error) {
	pods := slices.DeleteFunc(slices.Clone(job.Pods), func(pod inventory.Pod) bool {
		return o.Pod != "" && pod.Name != o.Pod || o.Rank != nil && (pod.Rank == nil || *pod.Rank != *o.Rank)
	})
	slices.SortStableFunc(pods, func(a, b inventory.Pod) int {
		return cmp.Or(cmp.Compare(rankOr(a, -1), rankOr(b, -1)), a.Created.Compare(b.Created))
	})
	switch {
	case len(pods) > 0:
		return pods, nil
	case o.Pod != "":
		return nil, &SelectionError{phrase.Of("job %s has no pod %q: %s", job.Name, o.Pod, podNames(job))}
	case o.Rank != nil && job.Array != nil:
		return nil, noTask(&job, *o.Rank)
	case o.Rank != nil:
		return nil, noRank(&job, *o.Rank)
	}
	return nil, nil
}

// noRank is the error for a rank that a job does not have; nil for one whose pod is to come.
func noRank(job *inventory.Job, rank int) error {
	switch {
	case rank < 0 || rank >= int(job.Desired):
		return &SelectionError{phrase.Of("job %s has no rank %d: it has %d pods, of ranks 0 to %d", job.Name, rank, job.Desired, job.Desired-1)}
	case slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool { return pod.Rank == nil }):
		return &SelectionError{phrase.Of("the pods of job %s have no ranks: %s", job.Name, podNames(*job))}
	}
	return nil
}

// noTask is the error for a task that an array does not have; nil for one that is to come, or whose pods are gone.
func noTask(job *inventory.Job, index int) error {
	if index >= 0 && index < int(job.Array.Tasks) {
		return nil
	}
	return &SelectionError{phrase.Of("job %s has no task %d: it has %d, from 0 to %d", job.Name, index, job.Array.Tasks, job.Array.Tasks-1)}
}

func rankOr(pod inventory.Pod, otherwise int) int {
	if pod.Rank == nil {
		return otherwise
	}
	return *pod.Rank
}

// chosenContainer returns the container to read of a pod, nil as long as the pod has none.
func chosenContainer(pod inventory.Pod, name string) (*inventory.ContainerState, error) {
	if name == "" || len(pod.Containers) == 0 {
		return defaultContainer(pod), nil
	}
	known := make([]string, len(pod.Containers))
	for i := range pod.Containers {
		if known[i] = pod.Containers[i].Name; known[i] == name {
			return &pod.Containers[i], nil
		}
	}
	return nil, &SelectionError{phrase.Of("pod %s has no container %q: it has %s", pod.Name, name, strings.Join(known, ", "))}
}

// defaultContainer is the first that is not for initialisation, or one for initialisation that failed and so kept it
// from starting.
func defaultContainer(pod inventory.Pod) *inventory.ContainerState {
	var first, failed *inventory.ContainerState
	for i := range pod.Containers {
		container := &pod.Containers[i]
		switch {
		case container.Init && container.ExitCode != nil && *container.ExitCode != 0:
			failed = container
		case !container.Init && first == nil:
			first = container
		}
	}
	if failed != nil && (first == nil || first.Started == nil) {
		return failed
	}
	return first
}

// isAgain reports whether a pod of the same rank was there before this one.
func isAgain(job inventory.Job, pod inventory.Pod) bool {
	return pod.Rank != nil && slices.ContainsFunc(job.Pods, func(other inventory.Pod) bool {
		return other.Rank != nil && *other.Rank == *pod.Rank && other.Created.Before(pod.Created)
	})
}

// isOver reports whether a job will have no more output than its runs have now. The pods of a job that was deleted
// go on until they have ended.
func isOver(job inventory.Job) bool {
	if job.Finished != nil {
		return true
	}
	gone := job.Status == inventory.StatusTerminating
	return gone && !slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool { return pod.Phase == string(corev1.PodRunning) })
}

// cursor is how far a log was read: up to the last line's time, how many lines have that very time, and how many pieces
// of the last one came after its beginning.
type cursor struct {
	last          time.Time
	count, pieces int
	// skip and skipPieces are how many of them are still to be passed over after the log was opened again.
	skip, skipPieces int
	// passedOver says that the line before was, so that its pieces are too.
	passedOver bool
}

// reopen prepares for reading the log again from the cursor's time on.
func (c *cursor) reopen() { c.skip, c.skipPieces, c.passedOver = c.count, c.pieces, false }

// advance reports whether a line is new, and moves the cursor onto it.
func (c *cursor) advance(at time.Time) bool {
	switch {
	case at.IsZero():
		return c.advancePiece()
	case at.Before(c.last):
		c.passedOver = true
		return false
	case at.Equal(c.last) && c.skip > 0:
		c.skip--
		c.passedOver = c.skip > 0
		return false
	case at.Equal(c.last):
		c.count++
	default:
		c.last, c.count, c.skip = at, 1, 0
	}
	c.pieces, c.skipPieces, c.passedOver = 0, 0, false
	return true
}

// advancePiece is advance for the rest of a line that was cut, which belongs to the line before it.
func (c *cursor) advancePiece() bool {
	switch {
	case c.passedOver:
		return false
	case c.skipPieces > 0:
		c.skipPieces--
		return false
	}
	c.pieces++
	return true
}

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
	// over says that the container has ended: its log no longer grows.
	over bool
}

// runID identifies a run. The start time distinguishes restarts of a container.
type runID struct {
	pod       types.UID
	container string
	started   int64
}

// selectRuns returns the runs of a job that have output and that the options select, in the order of their pods.
func selectRuns(job inventory.Job, o *Options) ([]run, error) {
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
	if o.Follow { // ended runs are read one after the other
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
		return nil, &SelectionError{phrase.Textf("job %s has no pod %q: %s", job.Name, o.Pod, podNames(job))}
	case o.Rank != nil && job.Array != nil:
		return nil, noTask(&job, *o.Rank)
	case o.Rank != nil:
		return nil, noRank(&job, *o.Rank)
	}
	return nil, nil
}

// noRank returns an error for a rank that a job does not have; nil for one whose pod does not exist yet.
func noRank(job *inventory.Job, rank int) error {
	switch {
	case rank < 0 || rank >= int(job.Desired):
		return &SelectionError{phrase.Textf("job %s has no rank %d: it has %d pods, of ranks 0 to %d", job.Name, rank, job.Desired, job.Desired-1)}
	case slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool { return pod.Rank == nil }):
		return &SelectionError{phrase.Textf("the pods of job %s have no ranks: %s", job.Name, podNames(*job))}
	}
	return nil
}

// noTask returns an error for a task that an array does not have; nil for one that has not started, or whose pods are gone.
func noTask(job *inventory.Job, index int) error {
	if index >= 0 && index < int(job.Array.Tasks) {
		return nil
	}
	return &SelectionError{phrase.Textf("job %s has no task %d: it has %d, from 0 to %d", job.Name, index, job.Array.Tasks, job.Array.Tasks-1)}
}

func rankOr(pod inventory.Pod, otherwise int) int {
	if pod.Rank == nil {
		return otherwise
	}
	return *pod.Rank
}

// chosenContainer returns the container to read of a pod, nil while the pod has none.
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
	return nil, &SelectionError{phrase.Textf("pod %s has no container %q: it has %s", pod.Name, name, strings.Join(known, ", "))}
}

// defaultContainer returns the first container that is not an init container, or a failed init container that prevented it from starting.
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

// isAgain reports whether an earlier pod had the same rank.
func isAgain(job inventory.Job, pod inventory.Pod) bool {
	return pod.Rank != nil && slices.ContainsFunc(job.Pods, func(other inventory.Pod) bool {
		return other.Rank != nil && *other.Rank == *pod.Rank && other.Created.Before(pod.Created)
	})
}

// isOver reports whether a job will have no more runs with output. The pods of a deleted job continue until they have ended.
func isOver(job inventory.Job) bool {
	if job.Finished != nil {
		return true
	}
	gone := job.Status == inventory.StatusTerminating
	return gone && !slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool { return pod.Phase == string(corev1.PodRunning) })
}

// cursor is the position up to which a log was read: the time of the last line, how many lines have that same time, and how many pieces of the last
// line followed its beginning.
type cursor struct {
	last          time.Time
	count, pieces int
	// skip and skipPieces are how many of them are still to be skipped after the log was reopened.
	skip, skipPieces int
	// passedOver says that the previous line was skipped, so that its pieces are skipped too.
	passedOver bool
}

// resetForReopen prepares for reading the log again from the cursor's time on.
func (c *cursor) resetForReopen() { c.skip, c.skipPieces, c.passedOver = c.count, c.pieces, false }

// advanceTo reports whether a line is new, and moves the cursor onto it.
func (c *cursor) advanceTo(at time.Time) bool {
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

// advancePiece is advanceTo for the rest of a split line, which belongs to the line before it.
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

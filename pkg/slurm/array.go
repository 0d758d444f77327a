package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// taskArray are the tasks of a script.
type taskArray struct {
	// ids are the task IDs of the script, sorted; none for a script without an array.
	ids []int
	// atOnce is the number of concurrent tasks, 0 for all.
	atOnce int
}

// parseArray parses A-B:STEP,C,…%N.
func (r *request) parseArray(value string) error {
	list, most, capped := strings.Cut(value, "%")
	out := taskArray{}
	if capped {
		var err error
		if out.atOnce, err = parseCount(most); err != nil || out.atOnce == 0 {
			return phrase.Errorf("%q is not how many tasks run at once", most)
		}
	}
	for _, part := range strings.Split(list, ",") {
		first, last, step, err := parseRange(part)
		if err != nil {
			return err
		}
		if (last-first)/step >= workload.MaxTasks-len(out.ids) {
			return phrase.Errorf("an array has at most %d tasks", workload.MaxTasks)
		}
		for id := first; id <= last; id += step {
			out.ids = append(out.ids, id)
		}
	}
	slices.Sort(out.ids)
	out.ids = slices.Compact(out.ids)
	r.arrayTasks = out
	return nil
}

// parseRange parses N, A-B or A-B:STEP.
func parseRange(text string) (first, last, step int, err error) {
	ends, by, stepped := strings.Cut(text, ":")
	from, to, between := strings.Cut(ends, "-")
	first, err = parseCount(from)
	last, step = first, 1
	if err == nil && between {
		last, err = parseCount(to)
	}
	if err == nil && stepped {
		step, err = parseCount(by)
	}
	if err != nil || last < first || step < 1 || last > maxTaskID {
		return 0, 0, 0, phrase.Errorf("%q is no range of tasks such as 0-99", text)
	}
	return first, last, step, nil
}

// maxTaskID keeps sums of task IDs small.
const maxTaskID = 1 << 30

// arrayText returns the tasks in gpuctl's notation, "" for none. A job on several nodes cannot have tasks.
func (r *request) arrayText() string {
	n := len(r.arrayTasks.ids)
	switch {
	case n == 0 || r.nodes > 1:
		return ""
	case r.arrayTasks.atOnce == 0 || r.arrayTasks.atOnce >= n:
		return fmt.Sprintf("0-%d", n-1)
	}
	return fmt.Sprintf("0-%d%%%d", n-1, r.arrayTasks.atOnce)
}

// noteArrayDifferences notes the differences from Slurm.
func (r *request) noteArrayDifferences() {
	if len(r.arrayTasks.ids) > 0 && r.nodes > 1 {
		r.addNote(0, "its array is left out: a job on several nodes runs once. Create one for each value, with "+
			"gpuctl create -f FILE --name NAME-$i --env SLURM_ARRAY_TASK_ID=$i")
		r.arrayTasks = taskArray{}
	}
}

// arrayVariables returns the variables that Slurm sets for a task.
func (r *request) arrayVariables() [][2]string {
	ids := r.arrayTasks.ids
	if len(ids) == 0 {
		return nil
	}
	return [][2]string{
		{"SLURM_ARRAY_TASK_ID", taskID(ids)}, {"SLURM_ARRAY_TASK_COUNT", strconv.Itoa(len(ids))},
		{"SLURM_ARRAY_TASK_MIN", strconv.Itoa(ids[0])}, {"SLURM_ARRAY_TASK_MAX", strconv.Itoa(ids[len(ids)-1])},
		// All tasks share the job ID: a pod's name consists of the job's name and the task's number.
		{"SLURM_ARRAY_JOB_ID", `$(($(echo "${HOSTNAME%-*}" | cksum | cut -d' ' -f1) % 10000000))`},
	}
}

// taskID returns a shell expression for a task's ID in Slurm.
func taskID(ids []int) string {
	first, step := ids[0], 1
	if len(ids) > 1 {
		step = ids[1] - ids[0]
	}
	for i, id := range ids {
		if id != first+i*step {
			return fmt.Sprintf("$(echo %s | cut -d' ' -f$((JOB_COMPLETION_INDEX + 1)))", strings.Trim(fmt.Sprint(ids), "[]"))
		}
	}
	switch {
	case first == 0 && step == 1:
		return "$JOB_COMPLETION_INDEX"
	case step == 1:
		return fmt.Sprintf("$((JOB_COMPLETION_INDEX + %d))", first)
	}
	return fmt.Sprintf("$((JOB_COMPLETION_INDEX * %d + %d))", step, first)
}

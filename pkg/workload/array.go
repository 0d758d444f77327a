package workload

import (
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// tasksPattern matches a range of tasks, with an optional number of concurrent tasks.
var tasksPattern = regexp.MustCompile(`^(\d{1,9})-(\d{1,9})(?:%(\d{1,9}))?$`)

// maxTaskPods is the maximum number of pods that an array may leave behind: each failed run of a task leaves one until the job is deleted. It
// corresponds to a thousand tasks with the default retries.
const maxTaskPods = 4000

// checkArray limits the number of pods of an array, and the length of its last host name, which is <name>-<tasks - 1>.
func checkArray(d *decoder, j *Job) {
	if j.Array == nil {
		return
	}
	tasks, runs := int(j.Array.Tasks), int(j.Retries)+1
	if tasks*runs > maxTaskPods {
		d.errorf(d.valueAt("job.array"), "job.array: %d tasks with %d retries each may leave %d pods, and a job at most %d: "+
			"write job.retries: %d or less, or fewer tasks", tasks, j.Retries, tasks*runs, maxTaskPods, maxTaskPods/tasks-1)
	}
	if longest := validation.DNS1123LabelMaxLength - 1 - len(strconv.Itoa(tasks-1)); len(j.Name) > longest {
		d.errorf(d.valueAt("job.name"), "job.name: %q is too long: it has %d characters, and an array of %d tasks may have at most %d",
			j.Name, len(j.Name), tasks, longest)
	}
}

// taskRange parses the tasks of an array: 0-99, or 0-99%10 for at most ten at a time.
func taskRange(s string) (Array, error) {
	found := tasksPattern.FindStringSubmatch(s)
	if found == nil {
		return Array{}, phrase.Errorf("is no range of tasks such as 0-99, or %s for ten at once", "0-99%10")
	}
	var number [3]int // each has nine digits at most
	for i, digits := range found[1:] {
		number[i], _ = strconv.Atoi(digits)
	}
	first, count, atOnce := number[0], number[1]+1, number[2]
	switch {
	case first != 0:
		return Array{}, phrase.Errorf("begins at %d: a range begins at 0, and a program adds to $JOB_COMPLETION_INDEX what it needs", first)
	case count > MaxTasks:
		return Array{}, phrase.Errorf("has %d tasks, and a job at most %d: have each task do more, or make several jobs", count, MaxTasks)
	case found[3] == "":
		atOnce = count
	case atOnce == 0:
		return Array{}, phrase.Errorf("runs none of its tasks at once: write %s or more", "%1")
	}
	return Array{Tasks: int32(count), AtOnce: int32(min(atOnce, count))}, nil
}

package slurm

import (
	"cmp"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// request is what a script requests. A count of 0 means not given.
type request struct {
	options Options
	lines   []string
	notes   []Note
	// line is the line of the option that is being read.
	line int

	// job is the name in a form that Kubernetes accepts.
	job string

	name, comment, partition, directory, image string

	nodes                              int
	nodesGiven                         bool
	tasks, tasksPerNode, tasksPerGPU   int
	cpusPerTask, cpusPerGPU, cpus      int
	gpus, gpusTotal, gpusPerTask       int
	gpuType                            string
	memory, memoryPerCPU, memoryPerGPU int64
	limit                              time.Duration
	retries                            int
	priority                           workload.Priority
	arrayTasks                         taskArray
	env, mounts                        []string

	// components are those of a heterogeneous job, in order; nil for any other, and for one of them.
	components []*request
	// begins is where the component stands in the script, firstNode which node of the job is its first.
	begins    componentOptions
	firstNode int
}

func (r *request) addNote(line int, format string, args ...any) {
	r.notes = append(r.notes, Note{Line: line, Message: phrase.Textf(format, args...)})
}

// computeResources computes what each node gets from the tasks, as Slurm does.
func (r *request) computeResources() {
	r.computeNodes()
	r.gpus = max(r.gpus, divideUp(r.gpusTotal, r.nodes), r.gpusPerTask*max(r.tasksPerNode, 1))
	if r.gpusTotal%r.nodes > 0 {
		r.addNote(0, "%d GPUs on %d nodes: each node gets %d", r.gpusTotal, r.nodes, r.gpus)
	}
	if r.tasksPerGPU > 0 && r.tasksPerNode == 0 {
		r.tasksPerNode = r.tasksPerGPU * r.gpus
	}
	r.tasksPerNode = max(r.tasksPerNode, 1)
	switch {
	case r.cpusPerTask > 0:
		r.cpus = r.cpusPerTask * r.tasksPerNode
	case r.cpusPerGPU > 0:
		r.cpus = r.cpusPerGPU * r.gpus
	case r.tasksPerNode > 1:
		r.cpus = r.tasksPerNode
	}
	r.memory = max(r.memory, multiplySaturating(r.memoryPerCPU, max(r.cpus, 1)), multiplySaturating(r.memoryPerGPU, r.gpus))
}

// computeNodes computes the number of nodes and of tasks per node.
func (r *request) computeNodes() {
	if !r.nodesGiven && r.tasksPerNode > 0 && r.tasks > 0 {
		r.nodes = max(divideUp(r.tasks, r.tasksPerNode), 1)
	}
	if r.tasksPerNode == 0 {
		r.tasksPerNode = divideUp(r.tasks, r.nodes)
	}
	if !r.nodesGiven && r.tasks > 1 && r.nodes == 1 && r.tasksPerNode == r.tasks {
		r.addNote(0, "its %d tasks run on one node: say with --nodes on how many, if it needs more", r.tasks)
	}
}

// noteAllNodes notes that the script runs on all nodes, while in Slurm it runs only on the first.
func (r *request) noteAllNodes() {
	if r.nodes == 1 {
		return
	}
	if !r.usesCommand("srun") {
		r.addNote(0, "the script runs on all %d nodes, as it has no srun; in Slurm it would run on the first alone", r.nodes)
		return
	}
	r.addNote(0, "the script runs on all %d nodes, and what srun starts there on each: put what may happen once only behind [ \"$NODE_RANK\" = 0 ]", r.nodes)
}

// longerLimit returns the longer of two time limits, of which 0 is none.
func longerLimit(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// divideUp rounds up.
func divideUp(a, b int) int { return (a + b - 1) / b }

// multiplySaturating multiplies without overflow.
func multiplySaturating(a int64, b int) int64 {
	if b > 0 && a > math.MaxInt64/int64(b) {
		return math.MaxInt64
	}
	return a * int64(b)
}

func (r *request) poolName() string { return cmp.Or(r.options.Pool, r.partition) }

// maxNameLength leaves room for the pod names of a gang.
const maxNameLength = 50

// jobName returns the name in a form that Kubernetes accepts.
func (r *request) jobName() string {
	var out strings.Builder
	written := cmp.Or(r.name, strings.TrimSuffix(path.Base(r.options.Name), path.Ext(r.options.Name)))
	for _, c := range strings.ToLower(written) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			out.WriteRune(c)
		} else {
			out.WriteByte('-')
		}
	}
	name := out.String()
	name = strings.Trim(name[:min(len(name), maxNameLength)], "-")
	if name == "" || name[0] < 'a' {
		name = strings.TrimSuffix("job-"+name, "-")
	}
	if r.name != "" && name != r.name {
		r.addNote(0, "the job is called %s: a name has lower-case letters, digits and '-'", name)
	}
	return name
}

// units are Slurm's units: powers of 1024; without a unit, megabytes.
var units = map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

// parseMemory parses an amount as sbatch does, in bytes.
func parseMemory(text string) (int64, error) {
	digits, unit := strings.TrimSuffix(strings.ToUpper(text), "B"), int64(1<<20)
	if n := len(digits); n > 0 && units[digits[n-1]] > 0 {
		digits, unit = digits[:n-1], units[digits[n-1]]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, phrase.Errorf("%q is no amount of memory such as 64G", text)
	}
	return n * unit, nil
}

func memoryText(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// maxTimeLimit is more than the limit of any cluster.
const maxTimeLimit = 3650 * 24 * time.Hour

// parseTime parses minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and days-hours:minutes:seconds. No limit is 0.
func parseTime(text string) (time.Duration, error) {
	switch strings.ToUpper(text) {
	case "0", "INFINITE", "UNLIMITED", "-1":
		return 0, nil
	}
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	scale := []time.Duration{time.Hour, time.Minute, time.Second}
	if !hasDays && len(parts) < 3 {
		scale = scale[1:]
	}
	n, err := parseCount(days)
	if err != nil || len(parts) > len(scale) {
		return 0, phrase.Errorf("%q is no time such as 1-12:00:00", text)
	}
	total := time.Duration(n) * 24 * time.Hour
	for i, part := range parts {
		n, err := parseCount(part)
		if err != nil {
			return 0, phrase.Errorf("%q is no time such as 1-12:00:00", text)
		}
		total += time.Duration(n) * scale[i]
	}
	if total > maxTimeLimit {
		return 0, phrase.Errorf("%q is longer than ten years", text)
	}
	return total, nil
}

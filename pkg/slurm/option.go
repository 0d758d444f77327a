package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// option describes the conversion of one option of sbatch.
type option struct {
	// flag marks options without a value, or with a value only after =.
	flag bool
	// take parses the value; if it is nil, note explains the option.
	take func(r *request, value string) error
	// note says why the option has no counterpart and what to use instead, as text with a translation; empty if no note is needed.
	note string
}

// applyDirective applies one option, or notes why it cannot.
func (r *request) applyDirective(d directive) {
	o := options[d.name]
	r.line = d.line
	switch {
	case !d.known:
		r.addNote(d.line, "%s: sbatch has no such option that we know, and it is left out", d.written)
	case o.take != nil:
		if err := o.take(r, d.value); err != nil {
			r.addNote(d.line, "%s: %v", d.written, err)
		}
	case o.note != "":
		r.addNote(d.line, "%s is left out: %s", d.written, phrase.FromTemplate(o.note, nil))
	}
}

// maxCount limits every number, so that products do not overflow.
const maxCount = 1_000_000

func parseCount(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxCount {
		return 0, phrase.Errorf("%q is no number up to %d", value, maxCount)
	}
	return n, nil
}

func countParser(of func(*request) *int) func(*request, string) error {
	return func(r *request, value string) error {
		n, err := parseCount(value)
		if err == nil {
			*of(r) = n
		}
		return err
	}
}

// gpuParser parses [TYPE:]COUNT.
func gpuParser(of func(*request) *int) func(*request, string) error {
	return func(r *request, value string) error {
		kind, count, found := strings.Cut(value, ":")
		if !found {
			kind, count = "", value
		}
		n, err := parseCount(count)
		if err != nil {
			return err
		}
		*of(r) = n
		return r.setType(kind)
	}
}

func memoryParser(of func(*request) *int64) func(*request, string) error {
	return func(r *request, value string) error {
		n, err := parseMemory(value)
		if err == nil && n == 0 {
			return phrase.Errorf("a job says how much memory it needs: resources.memory")
		}
		if err == nil {
			*of(r) = n
		}
		return err
	}
}

func (r *request) takePartition(value string) error {
	first, more, _ := strings.Cut(value, ",")
	r.partition = first
	if more != "" {
		return phrase.Errorf("a job has one pool, and gets %s", first)
	}
	return nil
}

// takeNodes parses N, or MIN-MAX.
func (r *request) takeNodes(value string) error {
	least, most, between := strings.Cut(value, "-")
	n, err := parseCount(least)
	if err != nil || n == 0 {
		return phrase.Errorf("%q is no number of nodes", value)
	}
	r.nodes, r.nodesGiven = n, true
	if between && most != least {
		return phrase.Errorf("a job has one number of nodes, and gets %d", n)
	}
	return nil
}

// takeGres parses gpu[:TYPE]:COUNT. It ignores sockets in parentheses, and reports other resources.
func (r *request) takeGres(value string) error {
	var others []string
	if value == "" || strings.EqualFold(value, "none") {
		return nil
	}
	for _, entry := range strings.Split(value, ",") {
		entry, _, _ = strings.Cut(entry, "(")
		parts := strings.Split(strings.TrimPrefix(entry, "gres/"), ":")
		if parts[0] != "gpu" {
			others = append(others, entry)
			continue
		}
		count, kind := "1", ""
		switch last := parts[len(parts)-1]; {
		case len(parts) == 2 && isNumber(last):
			count = last
		case len(parts) == 2:
			kind = last
		case len(parts) == 3:
			kind, count = parts[1], last
		}
		n, err := parseCount(count)
		if err != nil {
			return err
		}
		if err := r.setType(kind); err != nil {
			return err
		}
		r.gpus += n
	}
	if len(others) > 0 {
		return phrase.Errorf("there is no counterpart of %s", strings.Join(others, ", "))
	}
	return nil
}

// takePerTask parses what each task gets, as cpu=4,gres/gpu:TYPE=2. Before the count stands a colon in older versions.
func (r *request) takePerTask(value string) error {
	var others []string
	for _, entry := range strings.Split(value, ",") {
		name, count := cutCount(entry)
		kind, isGPU := strings.CutPrefix(strings.TrimPrefix(name, "gres/"), "gpu")
		isGPU = isGPU && (kind == "" || kind[0] == ':')
		if name != "cpu" && !isGPU { // whose count may have a unit, such as mem=4G
			others = append(others, entry)
			continue
		}
		n, err := parseCount(count)
		if err != nil {
			return err
		}
		switch {
		case name == "cpu":
			r.cpusPerTask = n
		case isGPU:
			r.gpusPerTask = n
			if err := r.setType(strings.TrimPrefix(kind, ":")); err != nil {
				return err
			}
		}
	}
	if len(others) > 0 {
		return phrase.Errorf("there is no counterpart of %s", strings.Join(others, ", "))
	}
	return nil
}

// cutCount cuts the count from a resource, behind = or the last colon; without one it is 1.
func cutCount(entry string) (name, count string) {
	if name, count, found := strings.Cut(entry, "="); found {
		return name, count
	}
	if at := strings.LastIndex(entry, ":"); at >= 0 && isNumber(entry[at+1:]) {
		return entry[:at], entry[at+1:]
	}
	return entry, "1"
}

// takeDependency notes what a job starts after: of numbers nothing is known, and a name is that of one job at a time.
func (r *request) takeDependency(value string) error {
	note := dependencyNote
	if value == "singleton" {
		note = singletonNote
	}
	r.addNote(r.line, "%s is left out: %s", "--dependency="+value, phrase.FromTemplate(note, nil))
	return nil
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// setType sets the GPU type, translated to the name that our nodes use if the options have it.
func (r *request) setType(kind string) error {
	if kind == "" {
		return nil
	}
	ours, known := r.options.GPUTypes[kind]
	if !known {
		ours = kind
		r.addNote(r.line, "gpu-type is %s, as Slurm calls it: gpuctl get nodes shows what your nodes call it; --gpu-type %s=NAME says it", kind, kind)
	}
	if r.gpuType != "" && r.gpuType != ours {
		return phrase.Errorf("a job has GPUs of one type on all nodes, and gets %s", r.gpuType)
	}
	r.gpuType = ours
	return nil
}

func (r *request) takeTime(value string) (err error) {
	r.limit, err = parseTime(value)
	return err
}

// takeExport parses ALL, NONE, NIL, or a list of NAME=VALUE and of names whose values only the submitting shell knows.
func (r *request) takeExport(value string) error {
	var unknown []string
	for _, entry := range strings.Split(value, ",") {
		switch name, _, given := strings.Cut(entry, "="); {
		case entry == "ALL" || entry == "NONE" || entry == "NIL" || entry == "":
		case given:
			r.env = append(r.env, entry)
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return phrase.Errorf("give the values of %s with gpuctl create --env NAME=VALUE", strings.Join(unknown, ", "))
	}
	return nil
}

// takeImage parses an image in pyxis notation, with # after the registry.
func (r *request) takeImage(value string) error {
	if strings.HasPrefix(value, "/") || strings.HasPrefix(value, ".") || strings.HasSuffix(value, ".sqsh") {
		return phrase.Errorf("it is a file: a job needs an image of a registry")
	}
	r.image = strings.ReplaceAll(strings.TrimPrefix(value, "docker://"), "#", "/")
	return nil
}

// priorities maps common QOS names to priorities.
var priorities = map[string]workload.Priority{
	"high": workload.PriorityHigh, "normal": workload.PriorityMedium, "medium": workload.PriorityMedium, "low": workload.PriorityLow,
}

// takeQOS parses the QOS. Its meaning differs between clusters, so only names that express a priority are converted.
func (r *request) takeQOS(value string) error {
	priority, known := priorities[strings.ToLower(value)]
	if !known {
		r.addNote(r.line, "--qos=%s is left out: there is no QOS, and job.priority is high, medium or low", value)
		return nil
	}
	r.priority = priority
	if r.begins.mark == "" { // the priority of another component does not become the job's
		r.addNote(r.line, "--qos=%s becomes job.priority: %s; what else it permits is not taken over", value, priority)
	}
	return nil
}

// takeMounts parses SOURCE[:TARGET[:ro]],…
func (r *request) takeMounts(value string) error {
	for _, entry := range strings.Split(value, ",") {
		parts := strings.Split(entry, ":")
		if !strings.HasPrefix(parts[0], "/") || strings.ContainsAny(entry, "{}\"'\\") {
			return phrase.Errorf("%q is no path of a node", entry)
		}
		mount := fmt.Sprintf("path: %q", parts[0])
		if len(parts) > 1 && parts[1] != parts[0] && parts[1] != "" {
			mount += fmt.Sprintf(", mount-path: %q", parts[1])
		}
		if len(parts) > 2 && strings.Contains(parts[2], "ro") {
			mount += ", read-only: true"
		}
		r.mounts = append(r.mounts, "{"+mount+"}")
	}
	r.addNote(r.line, "folders of nodes are mounted: the cluster may refuse those that its administrators do not allow; "+
		"gpuctl create -f FILE --dry-run=server asks it")
	return nil
}

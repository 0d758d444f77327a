// Package slurm converts Slurm batch scripts to gpuctl's YAML, so that Slurm users can start with their existing scripts.
//
// [Convert] reads the #SBATCH lines of a script: requests become fields of a training job, and everything without a counterpart is reported in notes,
// line by line. The script itself is not changed. It runs with a few lines of shell that stand in for what Slurm provides: its variables, srun,
// scontrol show hostnames.
//
// Options and variables are those of sbatch(1) and srun(1) of Slurm 26.05. testdata/options.tsv has all options of sbatch.
//
// The package is pure: it reads no file and no cluster.
package slurm

import (
	"cmp"
	"strings"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// MaxSize is the maximum size of a script in bytes; a job stores it in its YAML.
const MaxSize = workload.MaxDocumentSize / 2

// Options are inputs that the script does not contain.
type Options struct {
	// Name is the job's name if the script has none, such as the script's file name.
	Name string
	// Image is the container image if the script names none.
	Image string
	// Pool is the pool, in place of the script's partition; empty uses the partition's name.
	Pool string
	// GPUTypes maps Slurm's GPU types to the names that our nodes use, such as a100: A100-80G.
	GPUTypes map[string]string
}

// Note is a message for the user about a converted script.
type Note struct {
	// Line counts from 1; 0 means the whole script.
	Line    int
	Message phrase.Text
}

// Result is a script converted to a training job.
type Result struct {
	// YAML is one document of kind training.
	YAML  string
	Notes []Note
}

// Convert converts a batch script to a training job. A script without an image needs one in the options.
func Convert(script string, options Options) (Result, error) {
	if len(script) > MaxSize {
		return Result{}, phrase.Errorf("the script is too large: it has %d bytes, and at most %d are read", len(script), MaxSize)
	}
	lines := strings.Split(strings.ReplaceAll(script, "\r\n", "\n"), "\n")
	if interpreterOf(lines[0]) == nil {
		return Result{}, phrase.Errorf("this is no batch script: its first line must be such as #!/bin/bash")
	}
	components := readComponents(lines, options)
	r := components[0]
	r.image = cmp.Or(r.image, options.Image)
	if r.image == "" {
		return Result{}, phrase.Errorf("the script names no container image: give one with --image")
	}
	r.job = r.jobName()
	for _, c := range components {
		c.computeResources()
	}
	if err := r.joinComponents(components); err != nil {
		return Result{}, err
	}
	r.noteAllNodes()
	r.noteArrayDifferences()
	r.noteScript()
	source, err := r.writeYAML()
	return Result{YAML: source, Notes: r.notes}, err
}

// writeYAML writes the job's YAML.
func (r *request) writeYAML() (string, error) {
	out := "kind: training\n"
	set := func(path string, value any, wanted bool) error {
		if !wanted {
			return nil
		}
		changed, err := jobplan.SetField(out, path, value)
		out = changed
		return err
	}
	for _, field := range []struct {
		path   string
		value  any
		wanted bool
	}{
		{"job.name", r.job, true},
		{"job.description", r.comment, r.comment != ""},
		{"job.priority", string(r.priority), r.priority != ""},
		{"job.array", r.arrayText(), r.arrayText() != ""},
		{"job.retries", r.retries, r.retries >= 0},
		{"environment.image", r.image, true},
		{"environment.command", r.buildCommand(), true},
		{"resources.pool", r.poolName(), r.poolName() != ""},
		{"resources.gpu", r.gpus, r.gpus > 0},
		{"resources.gpu-type", r.gpuType, r.gpuType != "" && r.gpus > 0},
		{"resources.nodes", r.nodes, r.nodes > 1},
		{"resources.cpu", r.cpus, r.cpus > 0},
		{"resources.memory", memoryText(r.memory), r.memory > 0},
		{"resources.time-limit", workload.DurationText(r.limit), r.limit > 0},
	} {
		if err := set(field.path, field.value, field.wanted); err != nil {
			return "", err
		}
	}
	overrides := jobplan.Overrides{Env: r.env}
	if len(r.mounts) > 0 {
		overrides.Set = []string{"storage.workdirs=[" + strings.Join(r.mounts, ", ") + "]"}
	}
	return overrides.Apply(workload.KindTraining, out)
}

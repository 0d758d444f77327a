package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/golden"
)

// convert converts a script, and fails the test where what comes out is no valid job.
func convert(t testing.TB, script string, options Options) (Result, *workload.Job) {
	t.Helper()
	result, err := Convert(script, options)
	if err != nil {
		t.Fatal(err)
	}
	docs, diagnostics := workload.Parse("job.yaml", []byte(result.YAML))
	if len(docs) != 1 || len(diagnostics) > 0 {
		t.Fatalf("the YAML is not valid: %v\n%s", diagnostics, result.YAML)
	}
	return result, docs[0].Job
}

// TestScripts converts a hundred scripts. The golden file has what each asks for and every note.
func TestScripts(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "scripts.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, file := range archive.Files {
		t.Run(file.Name, func(t *testing.T) {
			result, job := convert(t, string(file.Data), Options{Name: file.Name, Image: "pytorch:2.8", GPUTypes: map[string]string{"h100": "H100-80G"}})
			describe(&out, file.Name, job, result.Notes)
			if program := job.Environment.Command[0]; program == "bash" {
				check := exec.Command(program, "-n", "-c", last(job.Environment.Command))
				if said, err := check.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, said)
				}
			}
		})
	}
	if len(archive.Files) < 100 {
		t.Errorf("there are %d scripts", len(archive.Files))
	}
	golden.Compare(t, filepath.Join("testdata", "scripts.golden"), out.String())
}

var standIn = regexp.MustCompile(`(?m)^(?:export (SLURM\w*)=|(\w+)\(\) \{)`)

func describe(out *strings.Builder, name string, job *workload.Job, notes []Note) {
	r := job.Resources
	fmt.Fprintf(out, "== %s\n%s: image %s, pool %s, %d GPUs %s, %d nodes", name, job.Name, job.Environment.Image, r.Pool, r.GPU, r.GPUTypes, r.Nodes)
	if r.CPU != nil {
		fmt.Fprintf(out, ", cpu %s", r.CPU)
	}
	if r.Memory != nil {
		fmt.Fprintf(out, ", memory %s", r.Memory)
	}
	if r.TimeLimit != nil {
		fmt.Fprintf(out, ", limit %s", r.TimeLimit)
	}
	if job.Retries != 3 {
		fmt.Fprintf(out, ", retries %d", job.Retries)
	}
	fmt.Fprintln(out)
	for _, v := range job.Environment.Env {
		fmt.Fprintf(out, "  env %s=%s\n", v.Name, v.Value)
	}
	for _, dir := range job.Storage.Workdirs {
		fmt.Fprintf(out, "  mount %s at %s, read-only %v\n", dir.Path, dir.MountPath, dir.ReadOnly)
	}
	command := job.Environment.Command
	fmt.Fprintf(out, "  runs by %s", strings.Join(command[:len(command)-1], " "))
	for _, match := range standIn.FindAllStringSubmatch(last(command), -1) {
		fmt.Fprintf(out, " %s%s", match[1], match[2])
	}
	fmt.Fprintln(out)
	for _, note := range notes {
		fmt.Fprintf(out, "  %d: %s\n", note.Line, note.Message)
	}
}

func last(words []string) string { return words[len(words)-1] }

// TestTheScriptRuns runs scripts as a member of a gang would.
func TestTheScriptRuns(t *testing.T) {
	member := []string{"PATH=" + os.Getenv("PATH"), "HOSTNAME=a-1", "NNODES=2", "NODE_RANK=1", "MASTER_ADDR=a-0.svc-a",
		"MPI_HOSTS=a-0.svc-a:8,a-1.svc-a:8", "RANK=1", "WORLD_SIZE=16"}
	alone := member[:2]
	const head = "#!/bin/bash\n"
	tests := map[string]struct {
		script, want string
		env          []string
		code         int
	}{
		"a task a GPU, on the second of two nodes": {
			script: head + "#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-task=2\n" +
				`srun -n 4 --mpi=pmix bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $CUDA_VISIBLE_DEVICES ${RANK:-none}' | sort`,
			env: member, want: "2 0 0,1 none\n3 1 2,3 none\n",
		},
		"the first node's name": {
			script: head + "#SBATCH -N 2\n" + `echo $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) $SLURM_NNODES $SLURM_NODEID $SLURM_NODELIST`,
			env:    member, want: "a-0.svc-a 2 1 a-0.svc-a,a-1.svc-a\n",
		},
		"alone": {
			script: head + "#SBATCH -c 6 --gres=gpu:2 --mem=2G -J it\n" +
				`echo $SLURM_NNODES $SLURM_NODEID $SLURM_CPUS_PER_TASK $SLURM_GPUS_ON_NODE $SLURM_MEM_PER_NODE $SLURM_JOB_NAME $SLURM_JOB_NODELIST; srun -c 6 --gres gpu:2 -- echo ran`,
			env: alone, want: "1 0 6 2 2048 it a-1\nran\n",
		},
		"one task of several, on the first node alone": {
			script: head + "#SBATCH -N 2 --ntasks-per-node=2\nsrun -n 1 echo one\nsrun -N1 --ntasks=1 echo one\nsrun -n3 sh -c 'echo $SLURM_PROCID' | sort",
			env:    member, want: "2\n",
		},
		"one task of several, alone": {
			script: head + "#SBATCH -n 2\nsrun --ntasks 1 echo one\nsrun echo both",
			env:    alone, want: "one\nboth\nboth\n",
		},
		"a number of its own": {
			script: head + "[ $SLURM_JOB_ID -gt 0 ] && [ $SLURM_JOB_ID = $SLURM_JOBID ] && echo $((SLURM_JOB_ID % 1))",
			env:    alone, want: "0\n",
		},
		"the failure of one task is the failure of srun": {
			script: head + "#SBATCH -n 3\nset -eu\n" + `srun bash -c 'exit $((SLURM_PROCID == 1 ? 7 : 0))'` + "\necho not reached",
			env:    alone, want: "", code: 7,
		},
		"several at once": {
			script: head + "set -euo pipefail\nsrun -n1 sh -c 'sleep 0.1; echo a' &\nsrun -n1 echo b &\nwait",
			env:    alone, want: "b\na\n",
		},
		"quotes, tabs and process numbers": {
			script: head + "#SBATCH -D /\nif true; then\n\techo \"it's $PWD\" 'a: b # c' `echo x`; fi\n[ $$ -gt 1 ] && echo pid",
			env:    alone, want: "it's / a: b # c x\npid\n",
		},
		"modules are not there, and nothing fails": {script: head + "set -e\nmodule purge\nmodule load cuda\necho on", env: alone, want: "on\n"},
		"a folder that is not there ends it":       {script: head + "#SBATCH -D /nope\necho on", env: alone, code: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, job := convert(t, tc.script, Options{Name: "it", Image: "i"})
			words := job.Environment.Command
			command := exec.Command(words[0], append(slices.Clone(words[1:len(words)-1]), strings.ReplaceAll(last(words), "$$$$", "$$"))...)
			command.Env = tc.env
			out, _ := command.Output()
			if code := command.ProcessState.ExitCode(); code != tc.code || string(out) != tc.want {
				t.Errorf("code %d, want %d; output %q, want %q", code, tc.code, out, tc.want)
			}
		})
	}
}

func TestWhatIsNoScript(t *testing.T) {
	for script, want := range map[string]string{
		"":                  "#!/bin/bash",
		"date\n":            "#!/bin/bash",
		"#!/usr/bin/perl\n": "#!/bin/bash",
		"#!\n":              "#!/bin/bash",
		"#!/usr/bin/env\n":  "#!/bin/bash",
		"#!/bin/bash\n" + strings.Repeat("x\n", MaxSize): "too large",
	} {
		if _, err := Convert(script, Options{Name: "a", Image: "i"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", script, err, want)
		}
	}
	if _, err := Convert("#!/bin/bash\ndate\n", Options{Name: "a"}); err == nil || !strings.Contains(err.Error(), "image") {
		t.Errorf("a script without an image: %v", err)
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"30": "30m", "30:30": "30m30s", "1:30:30": "1h30m30s", "2-12": "2d12h", "2-12:30": "2d12h30m", "2-12:30:15": "2d12h30m15s",
		"0-0:0:1": "1s", "INFINITE": "0s", "00:90": "1m30s",
	} {
		d, err := parseTime(text)
		if diff := cmp.Diff(want, workload.DurationText(d)); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	for _, text := range []string{"", "-", "1-", "1:2:3:4", "1-1:2:3:4", "1:-2", "x", "1-x", "9999999", "3651-0"} {
		if d, err := parseTime(text); err == nil {
			t.Errorf("%q is taken for %s", text, d)
		}
	}
}

// FuzzConvert holds that whatever the lines say, what comes out is YAML whose structure is ours.
func FuzzConvert(f *testing.F) {
	f.Add("-J a --gres=gpu:2", "date")
	f.Add("--comment='a: {b' --export=A=[ -D \"x'y\"", "echo \"$X\"\n\tb: - c")
	f.Fuzz(func(t *testing.T, options, body string) {
		result, err := Convert("#!/bin/bash\n#SBATCH "+options+"\n"+body, Options{Name: "a", Image: "i"})
		if err != nil {
			return
		}
		docs, _ := workload.Parse("f", []byte(result.YAML))
		for _, doc := range docs {
			if doc.Kind != workload.KindTraining || doc.Job.Environment.Command[0] != "bash" || len(doc.Job.Resources.Tolerations) > 0 {
				t.Errorf("%q became\n%s", options, result.YAML)
			}
		}
	})
}

// TestEachOptionOfSbatchIsKnown compares ours with Slurm's own table: none is unknown, and each takes its value in the same way.
func TestEachOptionOfSbatchIsKnown(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("testdata", "options.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		count++
		fields := strings.Split(strings.TrimSpace(line), "\t")
		name, value, short := fields[0], fields[1], fields[2]
		takes, known := optionTakesValue(name)
		if !known || takes != (value == "value") {
			t.Errorf("--%s, which takes %q: known %v, takes the next word %v", name, value, known, takes)
		}
		if short != "-" && shortOptions[short[0]] != name {
			t.Errorf("-%s is %q, want %s", short, shortOptions[short[0]], name)
		}
		given := "--" + name
		if value != "-" {
			given += "=1"
		}
		result, err := Convert("#!/bin/bash\n#SBATCH "+given+"\ndate\n", Options{Name: "a", Image: "i"})
		if err != nil {
			t.Errorf("%s: %v", given, err)
		}
		for _, note := range result.Notes {
			if strings.Contains(note.Message.String(), "no such option") {
				t.Errorf("%s: %s", given, note.Message)
			}
		}
	}
	if count < 120 {
		t.Errorf("the table has %d options", count)
	}
}

func TestWhatEachTaskGets(t *testing.T) {
	const head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 "
	tests := map[string]struct {
		options   string
		gpus, cpu string
		kind      string
		notes     string
	}{
		"CPUs and GPUs":                  {options: "--tres-per-task=cpu=6,gres/gpu=2", gpus: "8", cpu: "24"},
		"as older versions wrote it":     {options: "--tres-per-task=cpu:6,gres/gpu:h100:2", gpus: "8", cpu: "24", kind: "H100-80G"},
		"a type":                         {options: "--tres-per-task=gres/gpu:h100=1", gpus: "4", cpu: "4", kind: "H100-80G"},
		"what nobody counts":             {options: "--tres-per-task=cpu=2,license/matlab=1", gpus: "0", cpu: "8", notes: "there is no counterpart of license/matlab=1"},
		"no GPUs, said in so many words": {options: "--gres= --cpus-per-task=2", gpus: "0", cpu: "8"},
		"none":                           {options: "--gres=none --cpus-per-task=2", gpus: "0", cpu: "8"},
		"hints are about CPUs":           {options: "--hint=nomultithread --cpus-per-task=2", gpus: "0", cpu: "8", notes: "CPUs are asked for a node"},
		"one of a name at a time":        {options: "--dependency=singleton --cpus-per-task=2", gpus: "0", cpu: "8", notes: "there is one job of a name at a time"},
		"all nodes begin together":       {options: "--wait-all-nodes=1 --cpus-per-task=2", gpus: "0", cpu: "8"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result, job := convert(t, head+tc.options+"\nsrun date\n", Options{Name: "a", Image: "i", GPUTypes: map[string]string{"h100": "H100-80G"}})
			if got := fmt.Sprint(job.Resources.GPU); got != tc.gpus || job.Resources.CPU.String() != tc.cpu || strings.Join(job.Resources.GPUTypes, "") != tc.kind {
				t.Errorf("a node gets %s GPUs of type %v and %s CPUs, want %s, %q and %s", got, job.Resources.GPUTypes, job.Resources.CPU, tc.gpus, tc.kind, tc.cpu)
			}
			var notes strings.Builder
			for _, note := range result.Notes {
				if note.Line > 0 {
					notes.WriteString(note.Message.String())
				}
			}
			if !strings.Contains(notes.String(), tc.notes) || tc.notes == "" && notes.Len() > 0 {
				t.Errorf("the notes are %q, want %q", notes.String(), tc.notes)
			}
		})
	}
}

func TestScontrolInTheScriptIsNamed(t *testing.T) {
	for line, want := range map[string]bool{
		"scontrol requeue $SLURM_JOB_ID":                                    true,
		`head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)`: false,
		"scontrol show job $SLURM_JOB_ID | grep Time":                       true,
		"# scontrol requeue":                                                false,
	} {
		result, _ := convert(t, "#!/bin/bash\n"+line+"\n", Options{Name: "a", Image: "i"})
		got := slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.Contains(n.Message.String(), "scontrol is not there") })
		if got != want {
			t.Errorf("%s: named %v, want %v", line, got, want)
		}
	}
}

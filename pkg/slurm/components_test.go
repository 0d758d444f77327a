package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const hetHead = "#!/bin/bash\n"

// TestAHeterogeneousJobIsOneJob: options behind hetjob or packjob are those of another component, never change those before, and all components start
// together.
func TestAHeterogeneousJobIsOneJob(t *testing.T) {
	tests := map[string]struct {
		script string
		want   string
		notes  []string
	}{
		"two kinds of nodes": {
			script: "#SBATCH --nodes=4 --gres=gpu:8 --mem=100G\n#SBATCH hetjob\n#SBATCH --nodes=1 --gres=gpu:1\n",
			want:   "5 nodes, 8 GPUs, cpu <nil>, memory <nil>",
			notes: []string{"3: resources.memory is left out: component 1 does not give it", "0: component 0 is NODE_RANK 0-3 of the job",
				"3: component 1 is NODE_RANK 4 of the job, and gets 8 GPUs a node where it asks for 1"},
		},
		"a server without GPUs": {
			script: "#SBATCH -N 4 --gres=gpu:8 -c 12 --mem=200G\n#SBATCH packjob # the server\n#SBATCH -N 1 -c 32 --mem=64G\n",
			want:   "4 nodes, 8 GPUs, cpu 44, memory 264Gi",
			notes:  []string{"3: component 1 asks for no GPUs: it shares NODE_RANK 0 of the job"},
		},
		"the server alone says how much": {
			script: "#SBATCH -N 4 --gres=gpu:8\n#SBATCH hetjob\n#SBATCH -N 1 -c 32 --mem=64G\n",
			want:   "4 nodes, 8 GPUs, cpu <nil>, memory <nil>",
			notes:  []string{"0: resources.cpu is left out: component 0 does not give it", "0: resources.memory is left out: component 0 does not give it"},
		},
		"servers on as many nodes": {
			script: "#SBATCH -N 1 --gres=gpu:8\n#SBATCH hetjob\n#SBATCH -N 1 --gres=gpu:8\n#SBATCH hetjob\n#SBATCH -N 2\n",
			want:   "2 nodes, 8 GPUs, cpu <nil>, memory <nil>",
			notes:  []string{"5: component 2 asks for no GPUs: it shares NODE_RANK 0-1 of the job"},
		},
		"the server first": {
			script: "#SBATCH -N 1 -c 32\n#SBATCH hetjob\n#SBATCH -N 2 --gres=gpu:8 -c 8\n",
			want:   "2 nodes, 8 GPUs, cpu 40, memory <nil>",
			notes:  []string{"0: component 0 asks for no GPUs: it shares NODE_RANK 0 of the job", "3: component 1 is NODE_RANK 0-1 of the job"},
		},
		"none has GPUs": {
			script: "#SBATCH -N 2 -c 4\n#SBATCH hetjob\n#SBATCH -N 3 -c 16\n",
			want:   "5 nodes, 0 GPUs, cpu 16, memory <nil>",
		},
		"ten components": {
			script: "#SBATCH -N 1 --gres=gpu:2" + strings.Repeat("\n#SBATCH hetjob\n#SBATCH -N 2 --gres=gpu:2", 9) + "\n",
			want:   "19 nodes, 2 GPUs, cpu <nil>, memory <nil>",
			notes:  []string{"19: component 9 is NODE_RANK 17-18 of the job"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result, job := convert(t, hetHead+tc.script+"srun ./train : ./serve\n", Options{Name: "h", Image: "busybox"})
			r := job.Resources
			text := func(q fmt.Stringer, none bool) string {
				if none {
					return "<nil>"
				}
				return q.String()
			}
			got := fmt.Sprintf("%d nodes, %d GPUs, cpu %s, memory %s", r.Nodes, r.GPU, text(r.CPU, r.CPU == nil), text(r.Memory, r.Memory == nil))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var notes []string
			for _, note := range result.Notes {
				notes = append(notes, fmt.Sprintf("%d: %s", note.Line, note.Message))
			}
			for _, want := range tc.notes {
				if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
					t.Errorf("no note says %q: %q", want, notes)
				}
			}
		})
	}
	// A word of that name elsewhere is none.
	if _, job := convert(t, hetHead+"#SBATCH --job-name hetjob\n#SBATCH --comment=packjob\npython train.py\n", Options{Image: "busybox"}); job.Resources.Nodes > 1 {
		t.Errorf("%d nodes", job.Resources.Nodes)
	}
}

// TestComponentsOfTwoKindsAreRefused: what one job cannot have is said with the line, and what to do.
func TestComponentsOfTwoKindsAreRefused(t *testing.T) {
	for name, second := range map[string]string{
		"--gpus":            "--gres=gpu:h100:8",
		"--partition":       "--gres=gpu:8 -p other",
		"--container-image": "--container-image=other",
	} {
		script := hetHead + "#SBATCH -p one --gres=gpu:a100:8 --container-image=image\n#SBATCH hetjob\n#SBATCH " + second + "\nsrun a : b\n"
		_, err := Convert(script, Options{Name: "h"})
		if err == nil || !strings.Contains(err.Error(), "line 3: hetjob begins a component with "+name) || !strings.Contains(err.Error(), "make a script of each component") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Convert(hetHead+"#SBATCH -p one\n#SBATCH hetjob\n#SBATCH -p two\nsrun a : b\n", Options{Name: "h", Image: "i", Pool: "mine"}); err != nil {
		t.Errorf("a pool that is given for all: %v", err)
	}
}

// TestNodesWithoutGPUsAreNoNodesWithGPUs: a component without GPUs on more nodes than those with GPUs have would make GPUs of nothing.
func TestNodesWithoutGPUsAreNoNodesWithGPUs(t *testing.T) {
	for _, script := range []string{"-N 1 --gres=gpu:8\n#SBATCH hetjob\n#SBATCH -N 16 -c 8", "-N 16 -c 8\n#SBATCH hetjob\n#SBATCH -N 1 --gres=gpu:8"} {
		result, err := Convert(hetHead+"#SBATCH "+script+"\nsrun a : b\n", Options{Name: "h", Image: "i"})
		if err == nil || !strings.Contains(err.Error(), "asks for no GPUs and for 16 nodes, and the components with GPUs have 1") {
			t.Errorf("%q: %v\n%s", script, err, result.YAML)
		}
	}
}

// TestWhatAJobHasOnceIsThatOfTheFirstComponent: options of later components neither change the job nor disappear without a note.
func TestWhatAJobHasOnceIsThatOfTheFirstComponent(t *testing.T) {
	const first = "#SBATCH --job-name=one --comment=one --chdir=/one --qos=high\n"
	for given, want := range map[string]string{
		"--job-name=two": "--job-name", "--comment=two": "--comment", "--container-workdir=/two": "--chdir", "--qos=low": "--qos", "--no-requeue": "--no-requeue",
		"--array=1-3": "--array", "--job-name=one --comment=one -D /one --qos=high": "",
	} {
		alone, _ := convert(t, hetHead+first+"#SBATCH hetjob\n#SBATCH -N 1\nsrun a : b\n", Options{Image: "i"})
		result, _ := convert(t, hetHead+first+"#SBATCH hetjob\n#SBATCH -N 1 "+given+"\nsrun a : b\n", Options{Image: "i"})
		if diff := cmp.Diff(alone.YAML, result.YAML); diff != "" {
			t.Errorf("%s changes the job (-without +with):\n%s", given, diff)
		}
		var left []string
		for _, note := range result.Notes {
			if option, _, found := strings.Cut(note.Message.String(), " of this component is left out"); found && note.Line == 3 {
				left = append(left, option)
			}
			if strings.Contains(note.Message.String(), "job.priority: low") {
				t.Errorf("%s: %s", given, note.Message)
			}
		}
		if got := strings.Join(left, " "); got != want {
			t.Errorf("%s: left out is %q", given, got)
		}
	}
}

// TestAVariableHasOneValueInAllComponents: the members of a job have one environment.
func TestAVariableHasOneValueInAllComponents(t *testing.T) {
	script := func(second string) string {
		return hetHead + "#SBATCH --export=ALL,MODE=train,LOG=a\n#SBATCH hetjob\n#SBATCH --export=" + second + "\nsrun a : b\n"
	}
	_, err := Convert(script("MODE=serve"), Options{Name: "h", Image: "i"})
	if err == nil || !strings.Contains(err.Error(), "line 3: hetjob begins a component with --export MODE=serve, and the one before has MODE=train") {
		t.Errorf("%v", err)
	}
	if _, job := convert(t, script("MODE=train,PORT=80"), Options{Name: "h", Image: "i"}); len(job.Environment.Env) != 3 {
		t.Errorf("%v", job.Environment.Env)
	}
}

// TestTheComponentsRun runs a script of two components as each member of its gang does.
func TestTheComponentsRun(t *testing.T) {
	const three = hetHead + "#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-task=1 --gres=gpu:2\n#SBATCH hetjob\n#SBATCH -N 1 --gres=gpu:1\n#SBATCH hetjob\n#SBATCH -N 1\n"
	const say = ` bash -c 'echo $0 $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID [$CUDA_VISIBLE_DEVICES]' `
	tests := map[string]struct {
		script string
		want   [3]string
	}{
		"a program for each component": {
			script: "srun" + say + "train :" + say + "serve :" + say + "log | sort",
			want:   [3]string{"log 5/6 0 []\ntrain 0/6 0 [0]\ntrain 1/6 1 [1]\n", "train 2/6 0 [0]\ntrain 3/6 1 [1]\n", "serve 4/6 0 [0]\n"},
		},
		"a program on the first alone": {
			script: "srun" + say + "train | sort",
			want:   [3]string{"train 0/4 0 [0]\ntrain 1/4 1 [1]\n", "train 2/4 0 [0]\ntrain 3/4 1 [1]\n", ""},
		},
		"one program on two": {
			script: "srun --het-group=0-1" + say + "all | sort",
			want:   [3]string{"all 0/5 0 [0]\nall 1/5 1 [1]\n", "all 2/5 0 [0]\nall 3/5 1 [1]\n", "all 4/5 0 [0]\n"},
		},
		"groups in another order, by their older name": {
			script: "srun --pack-group 1" + say + "serve : --het-group=0 -n 1" + say + "train | sort",
			want:   [3]string{"train 1/2 0 [0]\n", "", "serve 0/2 0 [0]\n"},
		},
		"the names of the nodes": {
			script: `echo $SLURM_HET_SIZE $SLURM_NNODES $SLURM_JOB_NODELIST $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_JOB_NODELIST_PACK_GROUP_2`,
			want:   [3]string{"3 2 a-0,a-1 a-2 a-0\n", "3 2 a-0,a-1 a-2 a-0\n", "3 2 a-0,a-1 a-2 a-0\n"},
		},
		"the names of a component's nodes, line by line": {
			script: `scontrol show hostnames $SLURM_JOB_NODELIST_HET_GROUP_1; scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1; scontrol show hostnames | wc -l`,
			want:   [3]string{"a-2\na-0\n3\n", "a-2\na-0\n3\n", "a-2\na-0\n3\n"},
		},
		"a component that there is not": {script: "srun --het-group=7 echo on || echo none", want: [3]string{"none\n", "none\n", "none\n"}},
		"a program that fails":          {script: "set -eu\nsrun true : false\necho on", want: [3]string{"on\n", "on\n", ""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, job := convert(t, three+tc.script+"\n", Options{Name: "it", Image: "i"})
			words := job.Environment.Command
			for rank, want := range tc.want {
				command := exec.Command(words[0], append(slices.Clone(words[1:len(words)-1]), strings.ReplaceAll(last(words), "$$$$", "$$"))...)
				command.Env = []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("HOSTNAME=a-%d", rank), "NNODES=3", fmt.Sprintf("NODE_RANK=%d", rank),
					"MASTER_ADDR=a-0", "MPI_HOSTS=a-0:2,a-1:2,a-2:2"}
				out, _ := command.Output()
				if diff := cmp.Diff(want, string(out)); diff != "" {
					t.Errorf("node %d (-want +got):\n%s", rank, diff)
				}
			}
		})
	}
}

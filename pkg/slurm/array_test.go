package slurm

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestTheNumbersOfTasks runs the shell that stands in for Slurm's variables, for the first task, another and the last.
func TestTheNumbersOfTasks(t *testing.T) {
	tests := map[string]struct{ asked, array, ids string }{
		"from 0":              {"0-99%10", "0-99%10", "0 1 99"},
		"from 1":              {"1-100", "0-99", "1 2 100"},
		"a step":              {"10-30:10%2", "0-2%2", "10 20 30"},
		"a list":              {"1,3,5-9:2,20", "0-5", "1 3 20"},
		"out of order":        {"9,1", "0-1", "1 9 9"},
		"named twice":         {"1-3,2", "0-2", "1 2 3"},
		"one":                 {"7", "0-0", "7 7 7"},
		"more than there are": {"0-3%50", "0-3", "0 1 3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			script := "#!/bin/bash\n#SBATCH --array=" + tc.asked + "\necho $SLURM_ARRAY_TASK_ID\n"
			_, job := convert(t, script, Options{Name: "a", Image: "i"})
			if job.Array == nil {
				t.Fatal("it is no array")
			}
			got := fmt.Sprintf("0-%d", job.Array.Tasks-1)
			if job.Array.AtOnce < job.Array.Tasks {
				got += fmt.Sprintf("%%%d", job.Array.AtOnce)
			}
			if got != tc.array {
				t.Errorf("the array is %s, want %s", got, tc.array)
			}
			var ids []string
			for _, index := range []int32{0, min(1, job.Array.Tasks-1), job.Array.Tasks - 1} {
				run := exec.Command("bash", "-c", last(job.Environment.Command))
				run.Env = []string{fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index), "PATH=/usr/bin:/bin", "HOSTNAME=a-0"}
				out, err := run.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				ids = append(ids, strings.TrimSpace(string(out)))
			}
			if got := strings.Join(ids, " "); got != tc.ids {
				t.Errorf("its tasks are %s, want %s", got, tc.ids)
			}
		})
	}
}

// TestArraysThatCannotBe are told, and left out.
func TestArraysThatCannotBe(t *testing.T) {
	for _, asked := range []string{"0-1000", "0-99999999999", "x", "5-3", "0-9%0", "0-9:0", ",", "0-999,2000-2999"} {
		result, job := convert(t, "#!/bin/bash\n#SBATCH --array="+asked+"\ndate\n", Options{Name: "a", Image: "i"})
		if job.Array != nil || len(result.Notes) == 0 {
			t.Errorf("%s gives %v, and the notes %v", asked, job.Array, result.Notes)
		}
	}
	result, job := convert(t, "#!/bin/bash\n#SBATCH --array=0-9 -N 2\ndate\n", Options{Name: "a", Image: "i"})
	if job.Array != nil || !strings.Contains(fmt.Sprint(result.Notes), "several nodes") {
		t.Errorf("on several nodes: %v, %v", job.Array, result.Notes)
	}
}

package workload

import (
	"strings"
	"testing"
)

func TestTheTasksOfAnArray(t *testing.T) {
	tests := map[string]struct {
		text string
		want Array
		// wrong is in the error, if there is one.
		wrong string
	}{
		"all at once":              {text: "0-99", want: Array{Tasks: 100, AtOnce: 100}},
		"some at once":             {text: "0-99%10", want: Array{Tasks: 100, AtOnce: 10}},
		"one task":                 {text: "0-0", want: Array{Tasks: 1, AtOnce: 1}},
		"more at once than tasks":  {text: "0-3%10", want: Array{Tasks: 4, AtOnce: 4}},
		"the most":                 {text: "0-999", want: Array{Tasks: 1000, AtOnce: 1000}},
		"one too many":             {text: "0-1000", wrong: "has 1001 tasks, and a job at most 1000"},
		"far too many":             {text: "0-999999999%1", wrong: "has 1000000000 tasks"},
		"more than a number holds": {text: "0-99999999999999999999", wrong: "is no range of tasks"},
		"it begins elsewhere":      {text: "1-100", wrong: "begins at 1: a range begins at 0"},
		"none at once":             {text: "0-9%0", wrong: "runs none of its tasks"},
		"a list":                   {text: "1,3,5", wrong: "is no range of tasks"},
		"a step":                   {text: "0-9:2", wrong: "is no range of tasks"},
		"a number":                 {text: "100", wrong: "is no range of tasks"},
		"a negative number":        {text: "-5-9", wrong: "is no range of tasks"},
		"nothing":                  {text: "", wrong: "is no range of tasks"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := taskRange(tc.text)
			switch {
			case tc.wrong == "" && (err != nil || got != tc.want):
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("got error %v, want one with %q", err, tc.wrong)
			}
		})
	}
}

// TestAnArrayIsNoGang: a job on several nodes is one run of its program.
func TestAnArrayIsNoGang(t *testing.T) {
	_, diagnostics := Parse("job.yaml", []byte("kind: training\njob: {name: a, array: 0-3}\nenvironment: {image: i}\nresources: {nodes: 2, cpu: 1, memory: 1Gi}\n"))
	if !diagnostics.HasErrors() || !strings.Contains(diagnostics.String(), "job.array") {
		t.Errorf("got %v, want an error about job.array", diagnostics)
	}
}

// TestBoundsOfAnArray: its failed pods stay, and its last pod has a host name.
func TestBoundsOfAnArray(t *testing.T) {
	name := func(length int) string { return "name: " + strings.Repeat("a", length) }
	tests := map[string]struct{ job, wrong string }{
		"the most tasks, with the retries of the default": {job: "name: a, array: 0-999"},
		"one retry more":                     {job: "name: a, array: 0-999%1, retries: 4", wrong: "may leave 5000 pods, and a job at most 4000: write job.retries: 3 or less"},
		"few tasks that are often retried":   {job: "name: a, array: 0-3, retries: 999"},
		"and once more":                      {job: "name: a, array: 0-3, retries: 1000", wrong: "write job.retries: 999 or less"},
		"the longest name of a hundred":      {job: name(60) + ", array: 0-99"},
		"the same name for a thousand":       {job: name(60) + ", array: 0-999", wrong: "an array of 1000 tasks may have at most 59"},
		"one character more for a hundred":   {job: name(61) + ", array: 0-99", wrong: "an array of 100 tasks may have at most 60"},
		"a name that is that of a job alone": {job: name(63)},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			_, diagnostics := Parse("job.yaml", []byte("kind: training\njob: {"+tc.job+"}\nenvironment: {image: i}\nresources: {gpu: 1, cpu: 1, memory: 1Gi}\n"))
			if tc.wrong == "" && diagnostics.HasErrors() || !strings.Contains(diagnostics.String(), tc.wrong) {
				t.Errorf("got %v, want %q", diagnostics, tc.wrong)
			}
		})
	}
}

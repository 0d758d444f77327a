package command

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestRunInBackground: in a process of its own, as the priority cannot be raised again. Each thread has the priority, also those that are made later.
func TestRunInBackground(t *testing.T) {
	if os.Getenv("IN_BACKGROUND") == "" {
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunInBackground$")
		run.Env = append(os.Environ(), "IN_BACKGROUND=1")
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := runInBackground(); err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if got := strings.Fields(rest)[16]; got != strconv.Itoa(backgroundPriority) {
			t.Errorf("thread %s has priority %s", thread.Name(), got)
		}
	}
}

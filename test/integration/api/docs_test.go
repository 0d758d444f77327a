package api

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestTheExamplesOfTheDocs runs the calls of docs/api.md as they stand there.
func TestTheExamplesOfTheDocs(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	a := start(t, server.Options{})
	a.Cleanup(func() { a.remove("hello") })
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	job := strings.Replace(training("hello"), ", namespace: team", "", 1)
	if err := os.WriteFile(filepath.Join(folder, "train.yaml"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.Contains(block, "curl ") {
			continue
		}
		for _, command := range commands(block) {
			ran++
			cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+command)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "SERVER="+a.URL, "TOKEN="+users[member])
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			followed := errors.As(err, &exit) && exit.ExitCode() == 28 && strings.Contains(string(out), "event: state")
			if err != nil && !followed || strings.Contains(string(out), `"error"`) {
				t.Errorf("%s\n%v\n%s", command, err, out)
			}
		}
	}
	if ran < 4 {
		t.Errorf("%d commands ran, so this proves nothing", ran)
	}
}

// commands are those of a block, one may go on over several lines. The namespace of the docs is that of the tests, and
// what follows forever is given two seconds.
func commands(block string) []string {
	block = strings.NewReplacer("team-a", team, "curl -sS -N", "curl -sS -N --max-time 2", "|\n", "| ").Replace(strings.TrimSpace(block))
	return strings.Split(block, "\n")
}

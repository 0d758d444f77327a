package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheAPIOnASandbox starts the sandbox with the API by the command of docs/api.md, runs the other commands that stand
// there against it, and ends it.
func TestTheAPIOnASandbox(t *testing.T) {
	shell := newShell(t)
	t.Cleanup(func() { _, _ = shell.run(context.Background(), "gpu-sandbox down") })
	page, err := os.ReadFile(filepath.Join(root, "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	up, commands, settings := parts(t, string(page))
	started := shell.must(up + " --nodes 8")
	found := regexp.MustCompile(`gpuctl-server is ready at https://(127\.0\.0\.1:(\d+))`).FindStringSubmatch(started)
	if found == nil {
		t.Fatalf("it does not say where the API listens:\n%s", started)
	}
	if status := shell.must("gpu-sandbox status"); !strings.Contains(status, found[2]) {
		t.Errorf("gpu-sandbox status does not say where the API listens:\n%s", status)
	}
	job := "kind: training\njob: {name: hello}\nenvironment: {image: busybox, command: [\"sleep\", \"60\"]}\n" +
		"resources: {pool: training-pool, gpu: 1, cpu: 1, memory: 1Gi}\n"
	if err := os.WriteFile(filepath.Join(shell.folder, "train.yaml"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	out := shell.must(strings.Join([]string{
		"export KUBECONFIG=$(gpu-sandbox kubeconfig)", strings.Replace(settings, "PORT", found[2], 1),
		commands,
	}, "\n"))
	for _, want := range []string{
		`"user":"system:serviceaccount:team-a:ci"`, `"message":"任务已提交至资源池"`, "event: state", `"status":"paused"`, `"status":"terminating"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no answer has %s:\n%s", want, out)
		}
	}
	shell.must("gpu-sandbox down")
	if connection, err := net.DialTimeout("tcp", found[1], time.Second); err == nil {
		_ = connection.Close()
		t.Error("the API still listens after gpu-sandbox down")
	}
}

// parts are the commands of the page: the one that starts the sandbox, those that call the API, where a failure is an
// error and what follows forever ends, and the settings of a shell.
func parts(t *testing.T, page string) (up, commands, settings string) {
	t.Helper()
	for i, block := range strings.Split(page, "```") {
		block = strings.TrimSpace(block)
		switch {
		case i%2 == 0:
		case strings.HasPrefix(block, "gpu-sandbox up"):
			up = block
		case strings.HasPrefix(block, "kubectl"), strings.HasPrefix(block, "curl"):
			commands += block + "\n"
		}
	}
	if found := regexp.MustCompile("`(export SERVER=[^`]*)`").FindStringSubmatch(page); found != nil {
		settings = found[1]
	}
	if up == "" || settings == "" || strings.Count(commands, "curl ") < 6 {
		t.Fatalf("the page has no such commands: %q, %q,\n%s", up, settings, commands)
	}
	commands = regexp.MustCompile(`(?m)^(curl -sS -N .*)$`).ReplaceAllString(commands, `$1 || test $$? -eq 28`)
	return up, strings.NewReplacer("curl -sS -N", "curl -sS --fail-with-body -N --max-time 3",
		"curl -sS", "curl -sS --fail-with-body").Replace(commands), settings
}

// shell runs commands as a user types them who has our programs in the path.
type shell struct {
	*testing.T
	folder, path string
}

// newShell has a gpu-sandbox that keeps its files in a folder of the test.
func newShell(t *testing.T) *shell {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"gpu-sandbox", "gpuctl-server"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Fatalf("missing bin/%s: run %q in the repository", program, "make build")
		}
	}
	folder := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s/gpu-sandbox \"$@\" --dir %s/sandbox\n", bin, folder)
	if err := os.WriteFile(filepath.Join(folder, "gpu-sandbox"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return &shell{T: t, folder: folder, path: strings.Join([]string{folder, bin, filepath.Join(bin, "tools"), os.Getenv("PATH")}, ":")}
}

func (s *shell) run(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+script)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "PATH="+s.path)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *shell) must(script string) string {
	s.Helper()
	out, err := s.run(s.Context(), script)
	if err != nil {
		s.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

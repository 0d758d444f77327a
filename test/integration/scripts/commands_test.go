package scripts

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		ts.Fatalf("running it: %v", err)
	}
	if err != nil {
		return ended.ExitCode()
	}
	return 0
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		if failed := ts.Exec(args[0], args[1:]...) != nil; failed == neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it did not get there in %s\n%s%s", patience, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

// kubectl runs kubectl; what it prints can be inspected like the output of exec.
func kubectl(ts *testscript.TestScript, neg bool, args []string) {
	path, err := sandbox.FindTools()
	ts.Check(err)
	if failed := ts.Exec(filepath.Join(path, "kubectl"), args...) != nil; failed != neg {
		ts.Fatalf("kubectl %s: unexpected result\n%s", strings.Join(args, " "), ts.ReadFile("stderr"))
	}
}

// terminal runs a command on a pseudo-terminal and writes its screen to the file "screen", as norm writes it.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal N COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	command := commandOf(ts, args[1:])
	screen, err := pty.StartWithSize(command, &pty.Winsize{Rows: 30, Cols: 100})
	ts.Check(err)
	if typed, err := os.ReadFile(ts.MkAbs("typed")); err == nil {
		_, err := screen.Write(typed)
		ts.Check(err)
	}
	text, _ := io.ReadAll(screen) // the end of a terminal is an error on Linux
	if got := exitCode(ts, command.Wait()); got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, text)
	}
	ts.Check(screen.Close())
	visible := strings.NewReplacer("\r\n", "\n", "\x1b", "^[", "\r", "^M").Replace(string(text))
	ts.Check(os.WriteFile(ts.MkAbs("screen"), []byte(normalized(visible)), 0o644))
}

// commandOf is a command of the script's environment.
func commandOf(ts *testscript.TestScript, args []string) *exec.Cmd {
	path := args[0]
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		file := filepath.Join(dir, args[0])
		if _, err := os.Stat(file); err == nil {
			path = file
			break
		}
	}
	command := exec.Command(path, args[1:]...)
	command.Dir = ts.MkAbs(".")
	command.Env = []string{"TERM=xterm-256color"}
	for _, name := range []string{"PATH", "KUBECONFIG", "HOME", "XDG_CONFIG_HOME", "NO_COLOR"} {
		if value := ts.Getenv(name); value != "" {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	return command
}

func isJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: json")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &value); err != nil {
		ts.Fatalf("stdout is not JSON: %v\n%s", err, ts.ReadFile("stdout"))
	}
}

func norm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: norm FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(normalized(ts.ReadFile("stdout"))), 0o644))
}

// safe are the letters of the names that Kubernetes makes up.
const safe = "[bcdfghjklmnpqrstvwxz2456789]"

// varying is what differs from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b(?:train|infer|node)-\d\d\b`), "NODE"},
	{regexp.MustCompile(`(?:-` + safe + `{6,10})?-` + safe + `{5}\b`), "-POD"},
	{regexp.MustCompile(`(?m)^Cluster: .*`), "Cluster: TOTAL"},
	{regexp.MustCompile(`\b10\.244\.\d+\.\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`(^|[ (,（])(?:\d+h)?(?:\d+m)?\d+(?:s|ms|m)\b`), "${1}AGE"},
	{regexp.MustCompile(` {2,}`), "  "},
}

func normalized(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}

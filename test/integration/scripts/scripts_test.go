// Package scripts tests gpuctl as a user has it: scripts in testdata run the program against a whole sandbox with real
// etcd, API server, controllers and our scheduler, and say what it must print and with which code it must end.
//
// Beside the commands of testscript there are:
//
//	code N COMMAND...      runs a command that must end with exit code N
//	eventually COMMAND...  runs a command again and again until it succeeds
//	terminal N COMMAND...  runs a command on a terminal of 100 columns, to end with exit code N; its screen is in stdout
//	norm FILE              writes stdout to a file, with what differs from run to run replaced
//	kubectl ARG...         runs kubectl in the script's namespace
//
// Each script has a namespace of its own, s-<name of the script>; the nodes they share.
package scripts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

var update = flag.Bool("update", false, "write what the scripts expect")

// patience is how long a script waits for what should come at once on an idle machine.
const patience = time.Minute

var cluster *sandbox.Sandbox

// fleet is small enough that a script can fill it.
const fleet = `
groups:
- {namePrefix: train, count: 2, pool: training-pool, gpuType: A100-80G, gpusPerNode: 8, gpuMemory: 80Gi, interconnect: nvlink, cpu: "64", memory: 512Gi}
- {namePrefix: infer, count: 2, pool: inference-pool, gpuType: L40S-48G, gpusPerNode: 4, gpuMemory: 48Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
- {namePrefix: node, count: 4, gpuType: T4-16G, gpusPerNode: 4, gpuMemory: 16Gi, interconnect: pcie, cpu: "32", memory: 256Gi}
`

func TestMain(m *testing.M) {
	testscript.Main(withCluster{m}, map[string]func(){
		"gpuctl": func() { os.Exit(cli.Main(os.Args, cli.SystemStreams())) },
	})
}

// withCluster runs the tests on a sandbox. It does not run when the binary is called as gpuctl.
type withCluster struct{ tests *testing.M }

func (w withCluster) Run() int {
	nodes, err := sandbox.ParseFleet([]byte(fleet))
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsing the fleet of the tests:", err)
		return 1
	}
	options := sandbox.Full()
	options.Fleet, options.HostExec = &nodes, true
	return sandboxtest.Main(w.tests, options, prepare)
}

func prepare(ctx context.Context, s *sandbox.Sandbox) error {
	cluster = s
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.ApplyManifests(ctx, manifests.FS, "policy"); err != nil {
		return err
	}
	_, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", Setup: setUp, UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "eventually": eventually, "terminal": terminal, "norm": norm, "kubectl": kubectl,
		},
	})
}

// setUp gives a script its namespace, and a kubeconfig that points there.
func setUp(env *testscript.Env) error {
	namespace := "s-" + filepath.Base(strings.TrimPrefix(env.WorkDir, filepath.Dir(env.WorkDir)+"/script-"))
	if out, err := cluster.Kubectl(context.Background(), "create", "namespace", namespace); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	path := filepath.Join(env.WorkDir, ".kubeconfig")
	env.Setenv("KUBECONFIG", path)
	env.Setenv("NS", namespace)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
	env.Defer(func() {
		_, _ = cluster.Kubectl(context.Background(), "delete", "namespace", namespace, "--wait=false") // the sandbox ends anyway
	})
	return clientcmd.WriteToFile(*config, path)
}

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
	path := ""
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if file := filepath.Join(dir, args[1]); path == "" {
			if _, err := os.Stat(file); err == nil {
				path = file
			}
		}
	}
	command := exec.Command(path, args[2:]...)
	command.Dir = ts.MkAbs(".")
	command.Env = []string{"TERM=xterm-256color"}
	for _, name := range []string{"PATH", "KUBECONFIG", "HOME", "XDG_CONFIG_HOME", "NO_COLOR"} {
		if value := ts.Getenv(name); value != "" {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	screen, err := pty.StartWithSize(command, &pty.Winsize{Rows: 30, Cols: 100})
	ts.Check(err)
	text, _ := io.ReadAll(screen) // the end of a terminal is an error on Linux
	if got := exitCode(ts, command.Wait()); got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, text)
	}
	ts.Check(screen.Close())
	visible := strings.NewReplacer("\r\n", "\n", "\x1b", "^[", "\r", "^M").Replace(string(text))
	ts.Check(os.WriteFile(ts.MkAbs("screen"), []byte(normalized(visible)), 0o644))
}

func norm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: norm FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(normalized(ts.ReadFile("stdout"))), 0o644))
}

// varying is what differs from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b(?:train|infer|node)-\d\d\b`), "NODE"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`(^|[ (])(?:\d+h)?(?:\d+m)?\d+(?:s|ms|m)\b`), "${1}AGE"},
	{regexp.MustCompile(` {2,}`), "  "},
}

func normalized(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}

// TestEveryCommandHasAScript fails when a command is in no script.
func TestEveryCommandHasAScript(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	called := sets.New[string]()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, arguments, ok := strings.Cut(line, "gpuctl "); ok && !strings.HasPrefix(line, "#") {
				called.Insert(arguments)
			}
		}
	}
	for _, path := range cli.CommandPaths() {
		if !slices.ContainsFunc(called.UnsortedList(), func(arguments string) bool { return strings.HasPrefix(arguments, path) }) {
			t.Errorf("no script runs gpuctl %s", path)
		}
	}
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newTestSandbox is a sandbox without a control plane, to run children in.
func newTestSandbox(t *testing.T) *Sandbox {
	t.Helper()
	dir, err := makeDir(filepath.Join(t.TempDir(), "box"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := startWatchdog(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{dir: dir, errs: make(chan error, 1), watchdog: w}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return s
}

func shell(name, script string) ProcessSpec {
	return ProcessSpec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}}
}

func TestACrashIsReportedWithTheEndOfTheLog(t *testing.T) {
	s := newTestSandbox(t)
	if _, err := s.StartProcess(t.Context(), shell("child", "echo out of memory >&2; exit 7")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.Err():
		var exit *ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("got %v, want an *ExitError", err)
		}
		if exit.Name != "child" || exit.Tail != "out of memory" || !strings.Contains(exit.Reason, "exit status 7") {
			t.Errorf("got %+v, want the child's name, exit status and log", exit)
		}
	case <-time.After(10 * time.Second):
		t.Error("the crash was not reported")
	}
}

func TestAnEndThatWasAskedForIsNoCrash(t *testing.T) {
	tests := map[string]func(*Process) error{
		"stop":   (*Process).Stop,
		"kill":   (*Process).Kill,
		"signal": func(p *Process) error { return p.Signal(syscall.SIGTERM) },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			s := newTestSandbox(t)
			p, err := s.StartProcess(t.Context(), shell("child", "sleep 100"))
			if err != nil {
				t.Fatal(err)
			}
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			select {
			case err := <-s.Err():
				t.Errorf("a crash was reported: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
		})
	}
}

func TestOneThatIsToBeRestartedIs(t *testing.T) {
	s := newTestSandbox(t)
	turns := filepath.Join(t.TempDir(), "turns")
	spec := shell("child", "echo turn >>"+turns+"; if [ $(wc -l <"+turns+") = 1 ]; then exit 2; fi; sleep 100")
	spec.Restart = true
	p, err := s.StartProcess(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var exit *ExitError
	if err := <-s.Err(); !errors.As(err, &exit) || !exit.HasPanicked() {
		t.Errorf("got %v, want the exit code of a panic", err)
	}
	ran := func() int {
		written, err := os.ReadFile(turns)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(written), "turn")
	}
	for deadline := time.Now().Add(10 * time.Second); ran() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not started again")
		}
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if IsAlive(p.PID()) {
		t.Error("the second one still runs")
	}
	if got := ran(); got != 2 {
		t.Errorf("it ran %d times, want 2", got)
	}
}

// TestAnEndIsNotUndone kills one while it is about to be started again.
func TestAnEndIsNotUndone(t *testing.T) {
	s := newTestSandbox(t)
	spec := shell("child", "exit 1")
	spec.Restart = true
	p, err := s.StartProcess(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	<-s.Err()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if !p.hasEnded() {
		t.Error("it is not over")
	}
}

// TestAFailedStartIsNoCrashLoop: one that cannot start fails at once, and says how it ended.
func TestAFailedStartIsNoCrashLoop(t *testing.T) {
	s := newTestSandbox(t)
	spec := shell("child", "echo bad flag; exit 1")
	spec.Restart = true
	spec.Ready = func(context.Context) error { return errors.New("nobody answers") }
	p, err := s.StartProcess(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "bad flag") {
		t.Errorf("got process %v, error %v, want one that says how it ended", p, err)
	}
}

func TestStartProcessFailsWhenTheChildDoesNotBecomeReady(t *testing.T) {
	never := func(context.Context) error { return errors.New("nobody answers") }
	tests := map[string]struct {
		script string
		want   string
	}{
		"it ended":      {script: "echo bad flag; exit 2", want: "exit status 2"},
		"it is not up":  {script: "echo thinking; sleep 100", want: "nobody answers"},
		"its log shows": {script: "echo bad flag; exit 2", want: "bad flag"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newTestSandbox(t)
			spec := shell("child", tc.script)
			spec.Ready, spec.ReadyTimeout = never, time.Second
			_, err := s.StartProcess(t.Context(), spec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			if p := s.FindProcess("child"); p == nil || !p.hasEnded() {
				t.Error("the child still runs")
			}
		})
	}
}

func TestStopEndsGrandchildrenAndRemovesTheDirectory(t *testing.T) {
	s := newTestSandbox(t)
	file := filepath.Join(t.TempDir(), "pid")
	p, err := s.StartProcess(t.Context(), shell("child", "sleep 100 & echo $! >"+file+"; wait"))
	if err != nil {
		t.Fatal(err)
	}
	grandchild := waitForPID(t, file)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{p.PID(), grandchild} {
		waitUntilGone(t, pid)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// ownerVariable makes this test binary the owner of a sandbox in the directory that it names.
const ownerVariable = "SANDBOX_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		ownAndWait(dir)
	}
	os.Exit(m.Run())
}

// ownAndWait starts two children and waits to be killed.
func ownAndWait(dir string) {
	dir, err := makeDir(dir)
	if err != nil {
		panic(err)
	}
	w, err := startWatchdog(dir)
	if err != nil {
		panic(err)
	}
	s := &Sandbox{dir: dir, errs: make(chan error, 1), watchdog: w}
	for _, name := range []string{"one", "two"} {
		if _, err := s.StartProcess(context.Background(), shell(name, "trap '' TERM; sleep 100")); err != nil {
			panic(err)
		}
	}
	select {}
}

func TestTheWatchdogCleansUpAfterAnOwnerThatWasKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := []int{waitForPID(t, pidPath(dir, "one")), waitForPID(t, pidPath(dir, "two"))}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for _, pid := range pids {
		waitUntilGone(t, pid)
	}
	poll(t, "the directory to go", func(context.Context) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestCleanSparesAStrangerWithARecordedProcessID(t *testing.T) {
	dir, err := makeDir(filepath.Join(t.TempDir(), "box"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "100")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = stranger.Process.Kill(), stranger.Wait() })
	own := exec.Command("/bin/sh", "-c", "sleep 100", dir)
	own.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{"own": own, "stranger": stranger} {
		if err := writeFile(pidPath(dir, name), []byte(strconv.Itoa(cmd.Process.Pid))); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := Clean(dir); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if err := own.Wait(); err == nil {
		t.Error("the sandbox's own process ended well, want it killed")
	}
	if !IsAlive(stranger.Process.Pid) {
		t.Error("the stranger was killed")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func waitForPID(t *testing.T, path string) int {
	t.Helper()
	var pid int
	poll(t, path, func(context.Context) bool {
		var err error
		pid, err = readPID(path)
		return err == nil
	})
	return pid
}

// waitUntilGone waits until a process has ended; one whose parent has not reaped it counts as ended.
func waitUntilGone(t *testing.T, pid int) {
	t.Helper()
	poll(t, "process "+strconv.Itoa(pid)+" to end", func(context.Context) bool {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.HasPrefix(string(out), "Z")
	})
}

// TestTheWatchdogRemovesCgroups needs cgroups of its own, which only root has.
func TestTheWatchdogRemovesCgroups(t *testing.T) {
	s := &Sandbox{}
	var err error
	if s.dir, err = makeDir(filepath.Join(t.TempDir(), "box")); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("gpu-sandbox-test-%d", os.Getpid())
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil || len(hierarchies) == 0 {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"} // version 2
	}
	cgroup := filepath.Join(filepath.Dir(hierarchies[0]), name)
	if err := os.MkdirAll(filepath.Join(cgroup, "pods", "pod1"), 0o755); err != nil {
		t.Skip("no cgroup can be made:", err)
	}
	if err := s.RemoveCgroupAtEnd(name); err != nil {
		t.Fatal(err)
	}
	if err := Clean(s.dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{cgroup, s.dir} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	defaultReadyTimeout = 60 * time.Second
	readyPoll           = 50 * time.Millisecond
	stopGrace           = 5 * time.Second
	restartDelay        = time.Second
)

// ProcessSpec defines how to run a child of the sandbox.
type ProcessSpec struct {
	// Name is unique in the sandbox; the log is logs/NAME.log.
	Name string
	// Path is the program.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is added to PATH, HOME and TMPDIR, the only variables that children get: a user's own settings
	// (KUBECONFIG, proxies) must not change what the sandbox does. HOME and TMPDIR are in the sandbox.
	Env []string
	// Port is where it serves, for reports only. 0 is none.
	Port int
	// Ready is called until it returns nil. nil means ready at once.
	Ready func(context.Context) error
	// Start starts the command, in other namespaces than this process's. nil means cmd.Start. Such a program must itself ensure that it does not
	// outlive the sandbox: its process id may differ from the machine's, so it is not recorded.
	Start func(cmd *exec.Cmd) error
	// ReadyTimeout bounds the wait for Ready. 0 means 60 s.
	ReadyTimeout time.Duration
	// Restart restarts it by the same spec, a second after each unrequested end, as a kubelet does, once it was ready. Each such end is reported as a
	// crash.
	Restart bool
}

// Process is a running child of the sandbox. It leads its own process group. One that is started again is the same Process.
type Process struct {
	name    string
	port    int
	log     string
	pidFile string
	done    chan struct{}
	exit    error // how it ended last; read after done is closed

	mu       sync.Mutex
	pid      int
	started  time.Time
	ready    bool // it was, once
	stopping bool
}

// Name returns the name it was started under.
func (p *Process) Name() string { return p.name }

// PID returns its process id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Port returns the port it serves on, 0 if none is known.
func (p *Process) Port() int { return p.port }

// LogPath returns the file that holds its standard output and error.
func (p *Process) LogPath() string { return p.log }

// LogTail returns the last lines of its log.
func (p *Process) LogTail() string { return TailLog(p.log) }

// Started returns when it was started last.
func (p *Process) Started() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Done is closed when it has ended, and is not started again.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for its end and returns how it ended: nil for exit code 0.
func (p *Process) Wait() error {
	<-p.done
	return p.exit
}

// Signal sends a signal to the process alone. An end that follows is not reported as a crash for the signals
// that ask for an end: interrupt, terminate and kill.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL:
		p.stopping = true
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// Kill ends the process and its children at once, as a crash of the machine would, and waits for the end.
func (p *Process) Kill() error {
	if err := p.killGroup(); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *Process) killGroup() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	return nil
}

// isToRun reports whether to restart it after its end: not if the end was requested, nor if it never was ready, since then its start fails.
func (p *Process) isToRun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready && !p.stopping
}

func (p *Process) becameReady() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = true
}

// wasStopped reports whether its end was requested.
func (p *Process) wasStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// Stop asks the process to end, and kills it when it has not within 5 s.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(stopGrace):
	}
	return p.Kill() // also what it left in its group
}

// exitError describes the end of the process.
func (p *Process) exitError(reason string) *ExitError {
	return &ExitError{Name: p.name, Reason: reason, Log: p.log, Tail: p.LogTail()}
}

// endError describes how the process ended, once it has.
func (p *Process) endError(what string) *ExitError {
	out := p.exitError(what + ", " + exitReason(p.exit))
	var exit *exec.ExitError
	if errors.As(p.exit, &exit) {
		out.Code = exit.ExitCode()
	}
	return out
}

// launchProcess starts the program of a spec with its files in the sandbox's directory. onExit is called each time it has ended.
func launchProcess(dir string, spec ProcessSpec, onExit func(*Process)) (*Process, error) {
	p := &Process{
		name: spec.Name, port: spec.Port,
		log: logPath(dir, spec.Name), pidFile: pidPath(dir, spec.Name),
		done: make(chan struct{}), ready: spec.Ready == nil,
	}
	wait, err := p.startProgram(dir, spec)
	if err != nil {
		return nil, err
	}
	again := func() (func() error, error) { return p.startProgram(dir, spec) }
	if !spec.Restart {
		again = nil
	}
	go p.reapProcess(wait, again, onExit)
	return p, nil
}

// startProgram starts the program, and returns what waits for its end.
func (p *Process) startProgram(dir string, spec ProcessSpec) (wait func() error, err error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	start := (*exec.Cmd).Start
	cmd := exec.Command("/bin/sh", append([]string{"-c", recordScript, p.pidFile, spec.Path}, spec.Args...)...)
	if spec.Start != nil {
		start, cmd = spec.Start, exec.Command(spec.Path, spec.Args...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp")}, spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.mu.Lock() // it must not appear stopped while it is starting
	defer p.mu.Unlock()
	if p.stopping {
		return nil, fmt.Errorf("starting %s: it is being stopped", spec.Name)
	}
	p.started = time.Now()
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	p.pid = cmd.Process.Pid
	return cmd.Wait, nil
}

// reapProcess waits for the process by the given function, records its end, and restarts it if there is a function for that.
func (p *Process) reapProcess(wait func() error, again func() (func() error, error), onExit func(*Process)) {
	for {
		p.exit = wait()
		_ = os.Remove(p.pidFile) // its id may be reused by an unrelated process from now on
		if again == nil || !p.isToRun() {
			break
		}
		onExit(p)
		time.Sleep(restartDelay)
		next, err := again()
		if err != nil {
			p.exit = err
			break
		}
		wait = next
	}
	close(p.done)
	onExit(p)
}

// awaitReady waits until the process is ready, has ended, or is out of time.
func awaitReady(ctx context.Context, p *Process, spec ProcessSpec) error {
	if spec.Ready == nil {
		return nil
	}
	timeout := spec.ReadyTimeout
	if timeout == 0 {
		timeout = defaultReadyTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := spec.Ready(ctx)
		if err == nil {
			p.becameReady()
			return nil
		}
		select {
		case <-p.done:
			return p.endError("ended before it was ready")
		case <-ctx.Done():
			return p.exitError(fmt.Sprintf("not ready after %s: %v", time.Since(p.Started()).Round(time.Second), err))
		case <-time.After(readyPoll):
		}
	}
}

func exitReason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func logPath(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

func (p *Process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

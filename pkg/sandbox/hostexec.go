package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// hostExecutor runs the commands of containers on this machine, as this user, in the folder for temporary files. See
// [Options].HostExec.
type hostExecutor struct{}

// Exit codes of shells for what has none of its own.
const (
	exitNotRunnable = 127
	exitSignal      = 128
)

// ExecInContainer implements remotecommand.Executor.
func (hostExecutor) ExecInContainer(
	ctx context.Context, _, _, _ string, args []string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = os.TempDir()
	if tty {
		return exitError(runOnTerminal(command, in, out, resize))
	}
	if out != nil {
		command.Stdout = out
	}
	if errOut != nil {
		command.Stderr = errOut
	}
	if in != nil {
		pipe, err := command.StdinPipe() // unlike Stdin, it allows a command to end without reading all
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in) // the command may have ended
			_ = pipe.Close()
		}()
	}
	return exitError(command.Run())
}

// runOnTerminal gives a command a terminal whose size follows that of the user's.
func runOnTerminal(command *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(command)
	if err != nil {
		return err
	}
	defer func() { _ = terminal.Close() }()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height}) // a wrong size is no reason to stop
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }() // it ends with the terminal
	}
	if out != nil {
		_, _ = io.Copy(out, terminal) // the end of a terminal is an error on Linux
	}
	return command.Wait()
}

// exitError gives the end of a command the form in which it is passed on with its exit code.
func exitError(err error) error {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &ended):
		return utilexec.CodeExitError{Err: err, Code: exitNotRunnable}
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return utilexec.CodeExitError{Err: err, Code: exitSignal + int(status.Signal())}
	}
	return utilexec.CodeExitError{Err: err, Code: ended.ExitCode()}
}

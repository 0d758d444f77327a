package sandbox

import (
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

//go:embed assets/watchdog.sh
var watchdogScript string

// watchdog is a process that ends the children recorded in a sandbox's directory, and removes the directory,
// as soon as its owner is gone. It is a shell and not this program, because the owner is often a test binary,
// and because Linux' parent-death signal follows the thread that started a child, which Go does not keep.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// startWatchdog starts a watchdog for the directory. It has a session of its own, so that keys typed at the owner's terminal do not reach it.
func startWatchdog(dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "sandbox-watchdog", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the watchdog's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

// releaseAndWait makes the watchdog clean up, and waits for its end.
func (w *watchdog) releaseAndWait() error {
	if err := w.pipe.Close(); err != nil {
		return fmt.Errorf("closing the watchdog's pipe: %w", err)
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("waiting for the watchdog: %w", err)
	}
	return nil
}

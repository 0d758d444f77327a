package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Children record themselves in run/NAME.pid before they become the program, so that the watchdog knows every child at any moment.
const recordScript = `echo $$ >"$0" && exec "$@"`

func pidPath(dir, name string) string { return filepath.Join(dir, "run", name+".pid") }

// PIDFile returns where a child of the name, which leads a process group, records its process id for the watchdog.
func (s *Sandbox) PIDFile(name string) string { return pidPath(s.dir, name) }

// readPID returns the process id that a child recorded.
func readPID(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading a process id: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("reading a process id: %s holds %q", path, data)
	}
	return pid, nil
}

// IsAlive reports whether a process exists.
func IsAlive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// killRecorded ends every process group recorded in a sandbox's directory.
func killRecorded(dir string) {
	paths, err := filepath.Glob(pidPath(dir, "*"))
	if err != nil {
		return // only a malformed pattern is an error, and this one is constant
	}
	for _, path := range paths {
		if pid, err := readPID(path); err == nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// writeLauncher writes a script that records its process id and becomes the program. envtest starts its programs itself, and the launcher makes them
// known to the watchdog. envtest also runs programs with --help; such a run is not a child to watch.
func writeLauncher(path, pidFile, program string) error {
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in --help) ;; *) echo $$ >%s ;; esac\nexec %s \"$@\"\n",
		shellQuote(pidFile), shellQuote(program))
	// A child that begins meanwhile would inherit the open file until its own program runs, and Linux starts no file that is open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return fmt.Errorf("writing a launcher: %w", err)
	}
	return nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

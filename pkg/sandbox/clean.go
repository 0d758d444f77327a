package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Clean removes what is left of a sandbox whose owner and watchdog are both gone: its processes, as far as
// they are still its own, and its directory.
func Clean(dir string) error {
	paths, err := filepath.Glob(pidPath(dir, "*"))
	if err != nil {
		return fmt.Errorf("cleaning %s: %w", dir, err)
	}
	for _, path := range paths {
		pid, err := readPID(path)
		if err != nil || !strings.Contains(commandLine(pid), dir) {
			continue // the id may belong to a stranger by now
		}
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may end meanwhile
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cleaning %s: %w", dir, err)
	}
	return nil
}

// commandLine returns a process's command line, "" if it cannot be told. All children carry the sandbox's
// directory in theirs.
func commandLine(pid int) string {
	if data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil {
		return string(data)
	}
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

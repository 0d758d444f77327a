package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Clean removes what is left of a sandbox whose owner and watchdog are both gone: its processes, if they are still its own, and its directory.
func Clean(dir string) error {
	paths, err := filepath.Glob(pidPath(dir, "*"))
	if err != nil {
		return fmt.Errorf("cleaning %s: %w", dir, err)
	}
	for _, path := range paths {
		pid, err := readPID(path)
		if err == nil && strings.Contains(commandLine(pid), dir) {
			continue
		}
		// The id may now belong to an unrelated process, which the watchdog must not end.
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("cleaning %s: %w", dir, err)
		}
	}
	dog, err := startWatchdog(dir)
	if err == nil {
		err = errors.Join(dog.releaseAndWait(), os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("cleaning %s: %w", dir, err)
	}
	return nil
}

// RemoveCgroupAtEnd has the watchdog remove a cgroup of the name, and those in it, from every hierarchy when the sandbox
// ends. It is called before the cgroup is made.
func (s *Sandbox) RemoveCgroupAtEnd(name string) error {
	return writeFile(filepath.Join(s.dir, "run", name+".cgroup"), []byte(name+"\n"))
}

// commandLine returns a process's command line, "" if unknown. All children have the sandbox's directory in theirs.
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
